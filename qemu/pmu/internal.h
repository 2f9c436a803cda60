/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: what its files share
 *
 * The order of a report: x86_pmu_count_tsc(), x86_pmu_flush(), whatever changes
 * the model, x86_pmu_continue(), x86_pmu_set_timer().
 */

#ifndef I386_TCG_PMU_INTERNAL_H
#define I386_TCG_PMU_INTERNAL_H

#include "budget.h"
#include "pmu.h"
#include "pmu_bridge.h"

/* The mode of the vCPU. */
static inline int x86_pmu_current_mode(CPUX86State *env)
{
    return x86_pmu_mode(env->hflags & HF_CPL_MASK);
}

/* Whether @cs counts, which means that it runs blocks with CF_PMU. */
static inline bool x86_pmu_counting(CPUState *cs)
{
    return cs->tcg_cflags & CF_PMU;
}

/* count.c */

/* What has retired since the last report. */
void x86_pmu_counts(CPUX86State *env, PmuCounts *counts);

/* Report to the model what has retired since the last report. */
void x86_pmu_flush(CPUX86State *env);

/* Deliver a pending PMI, then continue, start or stop counting. */
void x86_pmu_continue(CPUX86State *env);

/*
 * Something changes the model between two instructions, and has changed it: report
 * before, and continue after.
 */
void x86_pmu_begin_change(CPUX86State *env);
void x86_pmu_end_change(CPUX86State *env);

/*
 * The budget is used up: have x86_pmu_sync() called before the next
 * instruction.
 */
void x86_pmu_request_sync(CPUState *cs);

/* branch.c */

/* Get from the model which branches are recorded. */
void x86_pmu_continue_branches(CPUX86State *env);

/* Tell the model which branches have been taken since it was told of some. */
void x86_pmu_tell_branches(CPUX86State *env);

/* The model knows all branches. */
void x86_pmu_reset_branches(CPUX86State *env);

/* time.c */

/* Count the time since the last call for the present mode. */
void x86_pmu_count_tsc(CPUX86State *env);

/* Get from the model how much time may pass. */
void x86_pmu_continue_tsc(CPUX86State *env);

/* Have x86_pmu_sync() called when a counter may overflow that counts in @mode. */
void x86_pmu_set_timer(CPUX86State *env, int mode);

/* No time passes until x86_pmu_wake(). */
void x86_pmu_halt(CPUX86State *env);

/* Create, reset and free what time needs. */
void x86_pmu_realize_tsc(X86CPU *cpu);
void x86_pmu_reset_tsc(CPUX86State *env);
void x86_pmu_unrealize_tsc(X86CPU *cpu);

#endif /* I386_TCG_PMU_INTERNAL_H */
