/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: branch records
 *
 * A block translated with CF_PMU_BRANCHES calls a helper for each branch that it
 * takes.  Interrupts and exceptions are told by seg_helper.c.  The model
 * has the filters and the records.  It is told with the next report, and only of
 * the last branches: no register shows the others.
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
QEMU_BUILD_BUG_ON(PMU_BRANCH_CALL_OF_NEXT != PMU_KIND_CALL_OF_NEXT);

QEMU_BUILD_BUG_ON(X86_PMU_BRANCHES < PMU_LAST_BRANCHES);
QEMU_BUILD_BUG_ON(X86_PMU_BRANCHES & (X86_PMU_BRANCHES - 1));

void x86_pmu_tell_branches(CPUX86State *env)
{
    uint32_t end = env->pmu.branch_count;
    uint32_t kept = MIN(end, X86_PMU_BRANCHES);

    if (env->pmu.last_branches) {
        kept = MIN(kept, env->pmu.last_branches);
    }
    if (kept != end) {
        pmu_skip_branches(env->pmu.model, end - kept);
    }
    for (uint32_t i = end - kept; i != end; i++) {
        const X86PMUBranch *taken = &env->pmu.branches[i % X86_PMU_BRANCHES];
        PmuBranch branch = {
            .from = taken->from,
            .to = taken->to,
            .kind = taken->kind,
            .from_mode = taken->from_mode,
            .to_mode = taken->to_mode,
            .retires = taken->retires,
        };

        for (int mode = 0; mode < 2; mode++) {
            int64_t left = taken->left[mode];

            branch.instructions[mode] =
                env->pmu.granted[mode] - x86_pmu_insns(left);
            branch.branches[mode] = left & (PMU_CONDITIONAL - 1);
        }
        pmu_branch(env->pmu.model, &branch);
    }
    env->pmu.branch_count = 0;
}

/* Keep a branch until the next report.  EIP and CS may still be those before it. */
static void record(CPUX86State *env, uint64_t from, uint64_t to, uint32_t kind,
                   int from_mode, bool retires)
{
    int to_mode = x86_pmu_current_mode(env);
    X86PMUBranch *branch;

    if (!(env->pmu.branch_filter[to_mode] & (1 << kind))) {
        return;
    }
    if (env->pmu.branch_count == X86_PMU_BRANCHES && !env->pmu.last_branches) {
        x86_pmu_tell_branches(env);
    }
    branch = &env->pmu.branches[env->pmu.branch_count % X86_PMU_BRANCHES];
    env->pmu.branch_count++;
    branch->from = from;
    branch->to = to;
    branch->left[0] = env->pmu.left[0];
    branch->left[1] = env->pmu.left[1];
    branch->kind = kind;
    branch->from_mode = from_mode;
    branch->to_mode = to_mode;
    branch->retires = retires;
}

/* A near branch by a displacement is taken. */
void helper_pmu_branch(CPUX86State *env, target_ulong from, target_ulong to,
                       uint32_t kind)
{
    record(env, from, to, kind, x86_pmu_current_mode(env), true);
}

/*
 * Another branch has been executed.  It was at pmu.branch_from, in @mode, and
 * EIP and CS are those after it.
 */
void helper_pmu_branch_done(CPUX86State *env, uint32_t kind, uint32_t mode)
{
    record(env, env->pmu.branch_from, env->segs[R_CS].base + env->eip, kind,
           mode, true);
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
    if (intno != EXCP01_DB) {
        record(env, env->pmu.branch_from, env->segs[R_CS].base + env->eip,
               PMU_BRANCH_OTHER, env->pmu.interrupted_mode, is_int);
    } else if (env->pmu.model && pmu_has_lbrs(env->pmu.model)) {
        x86_pmu_debug_exception(env);
    }
}
