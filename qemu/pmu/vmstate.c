/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: save and restore
 *
 * The library of the model writes and reads its state as JSON.  Whatever else
 * there is, x86_pmu_sync() finds out anew.
 */

#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "migration/vmstate.h"
#include "internal.h"

/*
 * The CPU is stopped between two instructions: the model can have all that has
 * retired.  It may then have a PMI, so that this CPU, too, calls
 * x86_pmu_sync() if it goes on.
 */
static int pmu_pre_save(void *opaque)
{
    X86CPU *cpu = opaque;
    CPUX86State *env = &cpu->env;

    if (x86_pmu_counting(CPU(cpu))) {
        x86_pmu_count_tsc(env);
        x86_pmu_flush(env);
        cpu_interrupt(CPU(cpu), CPU_INTERRUPT_PMU);
    }
    env->pmu.saved_size = pmu_save(env->pmu.model, NULL, 0);
    env->pmu.saved = g_malloc(env->pmu.saved_size);
    pmu_save(env->pmu.model, env->pmu.saved, env->pmu.saved_size);
    return 0;
}

/* Before a state is loaded there is one if the last one could not be. */
static int pmu_free_saved(void *opaque)
{
    X86CPU *cpu = opaque;

    g_free(cpu->env.pmu.saved);
    cpu->env.pmu.saved = NULL;
    cpu->env.pmu.saved_size = 0;
    return 0;
}

/* RESET has been before. */
static int pmu_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    CPUX86State *env = &cpu->env;
    const char *error = "a CPU with a PMU was saved: start with pmu=on";

    if (env->pmu.model) {
        error = pmu_restore(env->pmu.model, env->pmu.saved,
                            env->pmu.saved_size);
    }
    pmu_free_saved(cpu);
    if (error) {
        error_report("%s", error);
        return -EINVAL;
    }
    /*
     * As if the budget were used up: x86_pmu_sync() delivers a pending PMI and
     * finds out what is counted, before the next instruction.
     */
    CPU(cpu)->tcg_cflags |= CF_PMU;
    cpu_interrupt(CPU(cpu), CPU_INTERRUPT_PMU);
    /* The clocks are loaded before.  loadvm does not set back the TSC. */
    env->pmu.tsc = cpu_get_tsc(env);
    return 0;
}

/* Far more than a state has.  A damaged one may name any size. */
#define PMU_MAX_SAVED_SIZE      (1 << 20)

static bool pmu_saved_size_is_valid(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;

    return cpu->env.pmu.saved_size <= PMU_MAX_SAVED_SIZE;
}

static bool pmu_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->env.pmu.model;
}

const VMStateDescription vmstate_x86_pmu = {
    .name = "cpu/tcg_pmu",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = pmu_needed,
    .pre_save = pmu_pre_save,
    .post_save = pmu_free_saved,
    .pre_load = pmu_free_saved,
    .post_load = pmu_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(env.pmu.saved_size, X86CPU),
        VMSTATE_VALIDATE("size of the PMU's state", pmu_saved_size_is_valid),
        VMSTATE_VBUFFER_ALLOC_UINT32(env.pmu.saved, X86CPU, 0, NULL,
                                     env.pmu.saved_size),
        VMSTATE_BOOL(env.pmu.tsc_counting, X86CPU),
        VMSTATE_BOOL(env.pmu.halted, X86CPU),
        VMSTATE_END_OF_LIST()
    }
};
