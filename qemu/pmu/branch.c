/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: branch records
 *
 * Blocks keep the branches that they take in branches[], or call a helper that
 * does.  Interrupts and exceptions are told by seg_helper.c.  The model has the
 * filters and the records.  It is told with the next report or interrupt, and
 * only of branches that a register shows.  If records say what counters have
 * counted, it is told of each branch at once.
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

/* A branch that is not recorded is stored behind the others all the same. */
QEMU_BUILD_BUG_ON(X86_PMU_BRANCHES <= PMU_LAST_BRANCHES);
QEMU_BUILD_BUG_ON(X86_PMU_BRANCHES & (X86_PMU_BRANCHES - 1));
QEMU_BUILD_BUG_ON(sizeof(X86PMUBranch) & (sizeof(X86PMUBranch) - 1));
QEMU_BUILD_BUG_ON(sizeof(X86PMUBranch) > UINT8_MAX);
QEMU_BUILD_BUG_ON((PMU_RECORD_ALL | PMU_RECORD_MODE(0) | PMU_RECORD_MODE(1)) !=
                  CF_PMU_BRANCHES);

/* Instead of a value of left[], which is not negative here. */
#define NO_BRANCH       (-1)

/* How blocks record the branches that the filters let through. */
static uint32_t how_to_record(CPUX86State *env)
{
    const uint8_t *filter = env->pmu.branch_filter;
    uint32_t how = 0;

    for (int mode = 0; mode < 2; mode++) {
        if (filter[mode]) {
            how |= PMU_RECORD_MODE(mode);
        }
    }
    if ((filter[0] | filter[1]) & PMU_JUMPS) {
        /* Blocks neither remove records nor tell of them at once. */
        how = env->pmu.call_stack_depth || env->pmu.logs_events
              ? PMU_RECORD_ALL : how | PMU_RECORD_ALL;
    }
    return how;
}

void x86_pmu_continue_branches(CPUX86State *env)
{
    uint8_t filter[2];
    CPUState *cs = env_cpu(env);

    pmu_branch_filter(env->pmu.model, &filter);
    if (filter[0] | filter[1]) {
        env->pmu.last_branches = pmu_last_branches(env->pmu.model);
        env->pmu.call_stack_depth = pmu_call_stack_depth(env->pmu.model);
        env->pmu.logs_events = pmu_logs_events(env->pmu.model);
    }
    memcpy(env->pmu.branch_filter, filter, sizeof(filter));
    for (int mode = 0; mode < 2; mode++) {
        for (int kind = 0; kind <= PMU_BRANCH_CALL_OF_NEXT; kind++) {
            bool recorded = filter[mode] & (1 << kind);

            env->pmu.branch_step[mode][kind] =
                recorded ? sizeof(X86PMUBranch) : 0;
        }
    }
    cs->tcg_cflags = (cs->tcg_cflags & ~CF_PMU_BRANCHES) | how_to_record(env);
}

void x86_pmu_reset_branches(CPUX86State *env)
{
    env->pmu.branch_end = 0;
    env->pmu.branch_highest = 0;
    env->pmu.branch_lowest = 0;
    env->pmu.branch_empty_returns = 0;
    env->pmu.branch_left[0] = NO_BRANCH;
}

/* What @left says about the time since the last report. */
static void retired(CPUX86State *env, const int64_t left[2],
                    uint64_t instructions[2], uint64_t branches[2])
{
    for (int mode = 0; mode < 2; mode++) {
        instructions[mode] = env->pmu.granted[mode] - x86_pmu_insns(left[mode]);
        branches[mode] = left[mode] & (PMU_CONDITIONAL - 1);
    }
}

static void tell(CPUX86State *env, const X86PMUBranch *taken)
{
    PmuBranch branch = {
        .from = taken->from,
        .to = taken->to,
        .kind = taken->what & 0xff,
        .from_mode = (taken->what >> 8) & 0xff,
        .to_mode = (taken->what >> 16) & 0xff,
        .retires = taken->what >> 24,
    };

    retired(env, taken->left, branch.retired.instructions,
            branch.retired.branches);
    pmu_branch(env->pmu.model, &branch);
}

static void tell_when(CPUX86State *env, const int64_t left[2])
{
    uint64_t instructions[2], branches[2];

    if (left[0] != NO_BRANCH) {
        retired(env, left, instructions, branches);
        pmu_branch_was_recorded(env->pmu.model, &instructions, &branches);
    }
}

static X86PMUBranch *branch_at(CPUX86State *env, int64_t offset)
{
    size_t i = (uint64_t)offset / sizeof(X86PMUBranch) % X86_PMU_BRANCHES;

    return &env->pmu.branches[i];
}

/* The lowest offset whose record has not been moved out of the call stack. */
static int64_t call_stack_begin(CPUX86State *env)
{
    int64_t size = env->pmu.call_stack_depth * sizeof(X86PMUBranch);

    return env->pmu.branch_highest - size;
}

/* The branches that a call stack has gained, and the records that it has lost. */
static void tell_call_stack(CPUX86State *env)
{
    int64_t size = sizeof(X86PMUBranch);
    int64_t lowest = env->pmu.branch_lowest;
    int64_t begin = MAX(call_stack_begin(env), lowest);

    pmu_drop_records(env->pmu.model, env->pmu.branch_highest / size,
                     -lowest / size);
    pmu_skip_branches(env->pmu.model, (begin - lowest) / size -
                                      env->pmu.branch_empty_returns);
    for (int64_t at = begin; at < env->pmu.branch_end; at += size) {
        const X86PMUBranch *branch = branch_at(env, at);

        tell_when(env, branch->left_before);
        tell(env, branch);
    }
    tell_when(env, env->pmu.branch_left);
}

void x86_pmu_tell_branches(CPUX86State *env)
{
    int64_t size = sizeof(X86PMUBranch);
    int64_t end = env->pmu.branch_end;

    if (env->pmu.call_stack_depth) {
        tell_call_stack(env);
    } else {
        int64_t begin = MAX(end - env->pmu.last_branches * size, 0);

        pmu_skip_branches(env->pmu.model, begin / size);
        for (int64_t at = begin; at < end; at += size) {
            tell(env, branch_at(env, at));
        }
    }
    x86_pmu_reset_branches(env);
}

/* With a call stack: keep what its records need.  See record() for qatomic_set(). */
static void push(CPUX86State *env, X86PMUBranch *branch)
{
    for (int mode = 0; mode < 2; mode++) {
        qatomic_set(&branch->left_before[mode],
                    qatomic_read(&env->pmu.branch_left[mode]));
        qatomic_set(&env->pmu.branch_left[mode],
                    qatomic_read(&branch->left[mode]));
    }
    env->pmu.branch_highest = MAX(env->pmu.branch_highest,
                                  env->pmu.branch_end);
}

/* A return removes the youngest record of a call stack. */
static void pop(CPUX86State *env)
{
    if (env->pmu.branch_end > call_stack_begin(env)) {
        env->pmu.branch_end -= sizeof(X86PMUBranch);
        env->pmu.branch_lowest = MIN(env->pmu.branch_lowest,
                                     env->pmu.branch_end);
    } else {
        env->pmu.branch_empty_returns++;
    }
}

/* Keep a branch until the model is told.  EIP and CS may still be those before it. */
static void record(CPUX86State *env, uint64_t from, uint64_t to, uint32_t kind,
                   int from_mode, bool retires)
{
    int to_mode = x86_pmu_current_mode(env);
    X86PMUBranch *branch;

    if (!(env->pmu.branch_filter[to_mode] & (1 << kind))) {
        return;
    }
    if (env->pmu.logs_events) {
        PmuBranch complete = {
            .from = from,
            .to = to,
            .kind = kind,
            .from_mode = from_mode,
            .to_mode = to_mode,
            .retires = retires,
        };

        x86_pmu_counts(env, &complete.retired);
        pmu_branch(env->pmu.model, &complete);
        return;
    }
    if (env->pmu.call_stack_depth && kind == PMU_BRANCH_RETURN) {
        pop(env);
        return;
    }
    branch = branch_at(env, env->pmu.branch_end);
    env->pmu.branch_end += sizeof(X86PMUBranch);
    /*
     * qatomic_set() and qatomic_read() keep the compiler from combining two words
     * in an SSE register.  Some hosts wait long for SSE between blocks with AVX,
     * and for a load of two words after a block has stored one of them.
     */
    qatomic_set(&branch->from, from);
    qatomic_set(&branch->to, to);
    for (int mode = 0; mode < 2; mode++) {
        qatomic_set(&branch->left[mode], qatomic_read(&env->pmu.left[mode]));
    }
    branch->what = x86_pmu_branch_what(kind, from_mode, to_mode, retires);
    if (env->pmu.call_stack_depth) {
        push(env, branch);
    }
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
        bool records = env->pmu.branch_filter[0] | env->pmu.branch_filter[1];

        if (records && pmu_has_last_event(env->pmu.model)) {
            /* The last event record has the youngest branch before this one. */
            x86_pmu_tell_branches(env);
            pmu_interrupt(env->pmu.model);
        }
        record(env, env->pmu.branch_from, env->segs[R_CS].base + env->eip,
               PMU_BRANCH_OTHER, env->pmu.interrupted_mode, is_int);
    } else if (env->pmu.model && pmu_has_lbrs(env->pmu.model)) {
        x86_pmu_debug_exception(env);
    }
}
