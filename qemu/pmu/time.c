/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: time
 *
 * With pmu-ref-cycles=tsc, some counters count time instead of instructions.  The
 * TSC is read where an instruction boundary is known: when the mode changes, when
 * software accesses the PMU, on HLT, and between blocks.  A timer interrupts the
 * vCPU when such a counter may overflow.
 */

#include "qemu/osdep.h"
#include <math.h>
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "internal.h"

void x86_pmu_count_tsc(CPUX86State *env)
{
    uint64_t now;

    if (!env->pmu.tsc_counting) {
        return;
    }
    now = cpu_get_tsc(env);
    /* With icount, time goes back if an instruction faults that has read it. */
    if (now > env->pmu.tsc) {
        if (!env->pmu.halted) {
            int mode = x86_pmu_current_mode(env);

            env->pmu.tsc_passed[mode] += now - env->pmu.tsc;
        }
        env->pmu.tsc = now;
    }
}

void x86_pmu_continue_tsc(CPUX86State *env)
{
    bool counting;

    if (!env->pmu.timer) {
        return;
    }
    pmu_tsc_until_overflow(env->pmu.model, &env->pmu.tsc_until);
    counting = env->pmu.tsc_until[0] != PMU_TSC_NEVER ||
               env->pmu.tsc_until[1] != PMU_TSC_NEVER;
    if (counting && !env->pmu.tsc_counting) {
        env->pmu.tsc = cpu_get_tsc(env);
    }
    env->pmu.tsc_counting = counting;
}

/* When the TSC will be @tsc, or somewhat earlier or later. */
static int64_t tsc_to_ns(CPUX86State *env, uint64_t tsc)
{
    int64_t now_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint64_t now = cpu_get_tsc(env);

    if (tsc <= now || !now) {
        return now_ns;
    }
    /*
     * Both began with the machine; with icount they are equal.  After loadvm,
     * which sets back the clock alone, this is too early.
     */
    return now_ns + ceil((tsc - now) * ((double)now_ns / now));
}

/*
 * Time in which the counter did not count delays its overflow: the timer may be
 * early, but the next report then sets it again.  So a change of the mode seldom
 * sets it.
 */
void x86_pmu_set_timer(CPUX86State *env, int mode)
{
    uint64_t until = env->pmu.tsc_until[mode];
    uint64_t passed = env->pmu.tsc_passed[0] + env->pmu.tsc_passed[1];
    uint64_t deadline;

    if (!env->pmu.tsc_counting || env->pmu.halted || until == PMU_TSC_NEVER) {
        return;
    }
    deadline = env->pmu.tsc + until - MIN(until, passed);
    if (!timer_pending(env->pmu.timer) || deadline < env->pmu.deadline) {
        BQL_LOCK_GUARD();
        env->pmu.deadline = deadline;
        timer_mod(env->pmu.timer, tsc_to_ns(env, deadline));
    }
}

/* The timer of a vCPU, in another thread. */
static void timer_fired(void *opaque)
{
    cpu_interrupt(CPU(opaque), CPU_INTERRUPT_PMU);
}

void x86_pmu_cpl_changes(CPUX86State *env, int cpl)
{
    if (x86_pmu_mode(cpl) != x86_pmu_current_mode(env)) {
        x86_pmu_count_tsc(env);
        x86_pmu_set_timer(env, x86_pmu_mode(cpl));
    }
}

void x86_pmu_halt(CPUX86State *env)
{
    if (env->pmu.timer) {
        env->pmu.halted = true;
        timer_del(env->pmu.timer);
    }
}

void x86_pmu_hlt(CPUX86State *env)
{
    x86_pmu_sync(env);
    x86_pmu_halt(env);
}

void x86_pmu_wake(CPUX86State *env)
{
    x86_pmu_count_tsc(env);
    env->pmu.halted = false;
    x86_pmu_set_timer(env, x86_pmu_current_mode(env));
}

void x86_pmu_realize_tsc(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    if (pmu_ref_cycles_are_tsc(env->pmu.model)) {
        env->pmu.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, timer_fired, cpu);
    }
}

void x86_pmu_reset_tsc(CPUX86State *env)
{
    memset(env->pmu.tsc_passed, 0, sizeof(env->pmu.tsc_passed));
    env->pmu.tsc_counting = false;
    env->pmu.halted = false;
    if (env->pmu.timer) {
        timer_del(env->pmu.timer);
    }
}

void x86_pmu_unrealize_tsc(X86CPU *cpu)
{
    timer_free(cpu->env.pmu.timer);
    cpu->env.pmu.timer = NULL;
}
