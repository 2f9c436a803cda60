/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: branch records
 *
 * A block translated with CF_PMU_BRANCHES calls a helper for each branch that it
 * takes.  Interrupts and exceptions are told by seg_helper.c.  The model
 * has the filters and the records.
 *
 * A branch is the last instruction of its block.  left[] is therefore exact
 * when it is recorded.
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "internal.h"

QEMU_BUILD_BUG_ON(PMU_BRANCH_CONDITIONAL != PMU_KIND_CONDITIONAL);
QEMU_BUILD_BUG_ON(PMU_BRANCH_INDIRECT_JUMP != PMU_KIND_INDIRECT_JUMP);
QEMU_BUILD_BUG_ON(PMU_BRANCH_RELATIVE_JUMP != PMU_KIND_RELATIVE_JUMP);
QEMU_BUILD_BUG_ON(PMU_BRANCH_INDIRECT_CALL != PMU_KIND_INDIRECT_CALL);
QEMU_BUILD_BUG_ON(PMU_BRANCH_RELATIVE_CALL != PMU_KIND_RELATIVE_CALL);
QEMU_BUILD_BUG_ON(PMU_BRANCH_RETURN != PMU_KIND_RETURN);
QEMU_BUILD_BUG_ON(PMU_BRANCH_OTHER != PMU_KIND_OTHER);

static void record(CPUX86State *env, PmuBranch *branch)
{
    branch->to_mode = x86_pmu_current_mode(env);
    if (!(env->pmu.branch_filter[branch->to_mode] & (1 << branch->kind))) {
        return;
    }
    for (int mode = 0; mode < 2; mode++) {
        int64_t left = env->pmu.left[mode];

        branch->instructions[mode] =
            env->pmu.granted[mode] - x86_pmu_insns(left);
        branch->branches[mode] = left & (PMU_CONDITIONAL - 1);
    }
    pmu_branch(env->pmu.model, branch);
}

/* A near branch by a displacement is taken. */
void helper_pmu_branch(CPUX86State *env, target_ulong from, target_ulong to,
                       uint32_t kind)
{
    PmuBranch branch = {
        .from = from,
        .to = to,
        .kind = kind,
        .from_mode = x86_pmu_current_mode(env),
        .retires = true,
    };

    record(env, &branch);
}

/*
 * Another branch has been executed.  It was at pmu.branch_from, in @mode, and
 * EIP and CS are those after it.
 */
void helper_pmu_branch_done(CPUX86State *env, uint32_t kind, uint32_t mode)
{
    PmuBranch branch = {
        .from = env->pmu.branch_from,
        .to = env->segs[R_CS].base + env->eip,
        .kind = kind,
        .from_mode = mode,
        .retires = true,
    };

    record(env, &branch);
}

/* A debug exception is not recorded, and stops recording. */
static void x86_pmu_debug_exception(CPUX86State *env)
{
    x86_pmu_begin_change(env);
    pmu_debug_exception(env->pmu.model);
    x86_pmu_end_change(env);
}

void x86_pmu_begin_interrupt(CPUX86State *env)
{
    env->pmu.branch_from = env->segs[R_CS].base + env->eip;
    env->pmu.interrupted_mode = x86_pmu_current_mode(env);
}

void x86_pmu_end_interrupt(CPUX86State *env, int intno, bool is_int)
{
    PmuBranch branch = {
        .from = env->pmu.branch_from,
        .to = env->segs[R_CS].base + env->eip,
        .kind = PMU_BRANCH_OTHER,
        .from_mode = env->pmu.interrupted_mode,
        .retires = is_int,
    };

    if (intno != EXCP01_DB) {
        record(env, &branch);
    } else if (env->pmu.model && pmu_has_lbrs(env->pmu.model)) {
        x86_pmu_debug_exception(env);
    }
}
