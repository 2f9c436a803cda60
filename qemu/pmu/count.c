/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: instructions
 *
 * A block translated with CF_PMU first takes all of its instructions from left[]
 * of its mode.  Unwinding gives back those that did not retire.  The counts are
 * therefore exact at every instruction boundary.  They are reported to the model
 * only when software accesses the PMU, or when a counter may overflow soon.
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "hw/i386/apic.h"
#include "tcg/tcg.h"
#include "tcg/helper-tcg.h"
#include "internal.h"

void x86_pmu_counts(CPUX86State *env, PmuCounts *counts)
{
    for (int mode = 0; mode < 2; mode++) {
        int64_t left = env->pmu.left[mode];
        uint64_t details = env->pmu.details[mode];

        counts->instructions[mode] =
            env->pmu.granted[mode] - x86_pmu_insns(left);
        counts->branches[mode] = left & (PMU_CONDITIONAL - 1);
        counts->conditional[mode] = (left & (PMU_INSN - 1)) / PMU_CONDITIONAL;
        counts->conditional_taken[mode] = env->pmu.taken[mode];
        counts->loads[mode] = details & (PMU_STORE - 1);
        counts->stores[mode] = (details & (PMU_NEAR - 1)) / PMU_STORE;
        counts->near_unconditional[mode] = details / PMU_NEAR;
        counts->tsc[mode] = env->pmu.tsc_passed[mode];
        /* Nothing else would show that one of the numbers has wrapped. */
        assert(left >= 0);
        assert(counts->instructions[mode] <= env->pmu.granted[mode]);
        assert(counts->branches[mode] <= counts->instructions[mode]);
        assert(counts->conditional[mode] <= counts->branches[mode]);
        assert(counts->conditional_taken[mode] <= counts->conditional[mode]);
    }
}

void x86_pmu_flush(CPUX86State *env)
{
    PmuCounts delta;

    if (env_cpu(env)->tcg_cflags & CF_PMU_BRANCHES) {
        x86_pmu_tell_branches(env);
    }
    x86_pmu_counts(env, &delta);
    for (int mode = 0; mode < 2; mode++) {
        int64_t left = env->pmu.left[mode];

        env->pmu.taken[mode] = 0;
        env->pmu.details[mode] = 0;

        env->pmu.granted[mode] = x86_pmu_insns(left);
        env->pmu.left[mode] = left & ~(PMU_INSN - 1);

        env->pmu.tsc_passed[mode] = 0;
    }
    pmu_retire(env->pmu.model, &delta);
}

static void set_cflag(CPUState *cs, uint32_t flag, bool set)
{
    if (set) {
        cs->tcg_cflags |= flag;
    } else {
        cs->tcg_cflags &= ~flag;
    }
}

void x86_pmu_continue(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);
    bool counting;

    if (pmu_take_pmi(env->pmu.model) && env_archcpu(env)->apic_state) {
        BQL_LOCK_GUARD();
        apic_deliver_pmi(env_archcpu(env)->apic_state,
                         pmu_pmi_masks_lvtpc(env->pmu.model));
    }

    counting = pmu_counting(env->pmu.model);
    if (counting) {
        uint64_t budget[2];

        pmu_budget(env->pmu.model, x86_pmu_current_mode(env), &budget);
        for (int mode = 0; mode < 2; mode++) {
            env->pmu.granted[mode] = MIN(budget[mode], PMU_MAX_BUDGET);
            env->pmu.left[mode] = env->pmu.granted[mode] * PMU_INSN;
        }
    }
    set_cflag(cs, CF_PMU, counting);
    set_cflag(cs, CF_PMU_DETAILS, pmu_counts_details(env->pmu.model));

    x86_pmu_continue_branches(env);
    x86_pmu_continue_tsc(env);
}

void x86_pmu_begin_change(CPUX86State *env)
{
    if (x86_pmu_counting(env_cpu(env))) {
        x86_pmu_count_tsc(env);
        x86_pmu_flush(env);
    }
}

void x86_pmu_end_change(CPUX86State *env)
{
    x86_pmu_continue(env);
    x86_pmu_set_timer(env, x86_pmu_current_mode(env));
    /* These were the flags of a block that will not run. */
    env_cpu(env)->cflags_next_tb = -1;
}

void x86_pmu_sync(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);

    if (cs->interrupt_request & CPU_INTERRUPT_PMU) {
        cpu_reset_interrupt(cs, CPU_INTERRUPT_PMU);
    }
    if (x86_pmu_counting(cs)) {
        x86_pmu_count_tsc(env);
        x86_pmu_flush(env);
        x86_pmu_continue(env);
        x86_pmu_set_timer(env, x86_pmu_current_mode(env));
    }
}

/*
 * The interrupt request has priority over all other interrupts, and it is served
 * before a block of the other mode runs.
 */
void x86_pmu_request_sync(CPUState *cs)
{
    BQL_LOCK_GUARD();
    cpu_interrupt(cs, CPU_INTERRUPT_PMU);
}

/* A block, at its start, has used up or exceeded the budget of its mode. */
void helper_pmu_expired(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);
    uintptr_t ra = GETPC();
    TranslationBlock *tb = tcg_tb_lookup(ra);
    int64_t *left = &env->pmu.left[x86_pmu_current_mode(env)];
    int64_t debit = x86_pmu_debit(tb->icount, tb->last_insn_pmu);

    if (*left < 0) {
        bool leave;

        /*
         * It exceeds the budget.  The model may grant more by now.  With
         * icount, time includes the whole block here: do not count it, and
         * leave a request of the timer for later.
         */
        *left += debit;
        if (x86_pmu_counting(cs)) {
            x86_pmu_flush(env);
            x86_pmu_continue(env);
        }
        leave = !x86_pmu_counting(cs) || cpu_loop_exit_requested(cs);
        if (!leave && *left < debit) {
            /* Run only as many instructions as the budget allows. */
            cs->cflags_next_tb =
                (tb_cflags(tb) & ~(CF_COUNT_MASK | CF_INVALID)) |
                x86_pmu_insns(*left);
            leave = true;
        }
        *left -= debit;
        if (leave) {
            /* No instruction was executed: this gives all of them back. */
            cpu_loop_exit_restore(cs, ra);
        }
    }
    if (*left < PMU_INSN) {
        x86_pmu_request_sync(cs);
    }
}

void x86_pmu_refund(CPUState *cs, const TranslationBlock *tb, int insns)
{
    int cpl = (tb->flags >> HF_CPL_SHIFT) & 3;

    cpu_env(cs)->pmu.left[x86_pmu_mode(cpl)] +=
        x86_pmu_debit(insns, tb->last_insn_pmu);
}

void x86_pmu_begin_int(CPUX86State *env)
{
    env->pmu.int_mode = x86_pmu_current_mode(env);
}

void x86_pmu_refund_int(CPUX86State *env)
{
    int64_t *left = &env->pmu.left[env->pmu.int_mode];

    if (x86_pmu_counting(env_cpu(env))) {
        assert(*left & (PMU_CONDITIONAL - 1));
        *left += PMU_INSN - PMU_BRANCH;
    }
}
