/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG
 *
 * A block translated with CF_PMU first takes all of its instructions from
 * pmu.left[] of its mode.  Unwinding gives back those that did not retire.  The
 * counts are therefore exact at every instruction boundary.  They are reported
 * to the model only when software accesses the PMU, or when a counter may
 * overflow soon.
 *
 * With pmu-ref-cycles=tsc, some counters count time instead.  The TSC is read
 * where an instruction boundary is known: when the mode changes, when software
 * accesses the PMU, on HLT, and between blocks.  A timer interrupts the vCPU
 * when such a counter may overflow.
 */

#include "qemu/osdep.h"
#include <math.h>
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#include "hw/boards.h"
#include "hw/i386/apic.h"
#include "migration/vmstate.h"
#include "tcg/tcg.h"
#include "tcg/helper-tcg.h"
#include "tcg/pmu/pmu.h"
#include "pmu_bridge.h"

static int current_mode(CPUX86State *env)
{
    return x86_pmu_mode(env->hflags & HF_CPL_MASK);
}

/* Report to the model what has retired since the last report. */
static void pmu_flush(CPUX86State *env)
{
    PmuCounts delta;

    for (int mode = 0; mode < 2; mode++) {
        int64_t left = env->pmu.left[mode];

        delta.instructions[mode] =
            env->pmu.granted[mode] - x86_pmu_insns(left);
        delta.branches[mode] = left & (PMU_CONDITIONAL - 1);
        delta.conditional[mode] = (left & (PMU_INSN - 1)) / PMU_CONDITIONAL;
        /* Nothing else would show that one of the numbers has wrapped. */
        assert(left >= 0);
        assert(delta.instructions[mode] <= env->pmu.granted[mode]);
        assert(delta.branches[mode] <= delta.instructions[mode]);
        assert(delta.conditional[mode] <= delta.branches[mode]);

        delta.conditional_taken[mode] = env->pmu.taken[mode];
        delta.loads[mode] = env->pmu.details[mode] & (PMU_STORE - 1);
        delta.stores[mode] =
            (env->pmu.details[mode] & (PMU_NEAR - 1)) / PMU_STORE;
        delta.near_unconditional[mode] = env->pmu.details[mode] / PMU_NEAR;
        assert(delta.conditional_taken[mode] <= delta.conditional[mode]);
        env->pmu.taken[mode] = 0;
        env->pmu.details[mode] = 0;

        env->pmu.granted[mode] = x86_pmu_insns(left);
        env->pmu.left[mode] = left & ~(PMU_INSN - 1);

        delta.tsc[mode] = env->pmu.tsc_passed[mode];
        env->pmu.tsc_passed[mode] = 0;
    }
    pmu_retire(env->pmu.model, &delta);
}

/* Deliver a pending PMI, then continue, start or stop counting. */
static void pmu_continue(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);

    if (pmu_take_pmi(env->pmu.model) && env_archcpu(env)->apic_state) {
        BQL_LOCK_GUARD();
        apic_deliver_pmi(env_archcpu(env)->apic_state,
                         pmu_pmi_masks_lvtpc(env->pmu.model));
    }

    if (pmu_counting(env->pmu.model)) {
        uint64_t budget[2];

        pmu_budget(env->pmu.model, current_mode(env), &budget);
        for (int mode = 0; mode < 2; mode++) {
            env->pmu.granted[mode] = MIN(budget[mode], PMU_MAX_BUDGET);
            env->pmu.left[mode] = env->pmu.granted[mode] * PMU_INSN;
        }
        cs->tcg_cflags |= CF_PMU;
    } else {
        cs->tcg_cflags &= ~CF_PMU;
    }
    if (pmu_counts_details(env->pmu.model)) {
        cs->tcg_cflags |= CF_PMU_DETAILS;
    } else {
        cs->tcg_cflags &= ~CF_PMU_DETAILS;
    }

    if (env->pmu.timer) {
        bool counting;

        pmu_tsc_until_overflow(env->pmu.model, &env->pmu.tsc_until);
        counting = env->pmu.tsc_until[0] != PMU_TSC_NEVER ||
                   env->pmu.tsc_until[1] != PMU_TSC_NEVER;
        if (counting && !env->pmu.tsc_counting) {
            env->pmu.tsc = cpu_get_tsc(env);
        }
        env->pmu.tsc_counting = counting;
    }
}

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
            env->pmu.tsc_passed[current_mode(env)] += now - env->pmu.tsc;
        }
        env->pmu.tsc = now;
    }
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
 * Have x86_pmu_sync() called when a counter may overflow that counts in @mode.
 *
 * Time in which it did not count delays the overflow: the timer may be early,
 * but the next report then sets it again.  So a change of the mode seldom does.
 */
static void set_timer(CPUX86State *env, int mode)
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
    if (x86_pmu_mode(cpl) != current_mode(env)) {
        x86_pmu_count_tsc(env);
        set_timer(env, x86_pmu_mode(cpl));
    }
}

void x86_pmu_halt(CPUX86State *env)
{
    if (env->pmu.timer) {
        env->pmu.halted = true;
        timer_del(env->pmu.timer);
    }
}

void x86_pmu_wake(CPUX86State *env)
{
    x86_pmu_count_tsc(env);
    env->pmu.halted = false;
    set_timer(env, current_mode(env));
}

void x86_pmu_sync(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);

    if (cs->interrupt_request & CPU_INTERRUPT_PMU) {
        cpu_reset_interrupt(cs, CPU_INTERRUPT_PMU);
    }
    if (x86_pmu_counting(cs)) {
        x86_pmu_count_tsc(env);
        pmu_flush(env);
        pmu_continue(env);
        set_timer(env, current_mode(env));
    }
}

/*
 * The budget is used up: have x86_pmu_sync() called before the next
 * instruction.  The interrupt request has priority over all other interrupts,
 * and it is served before a block of the other mode runs.
 */
static void request_sync(CPUState *cs)
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
    int64_t *left = &env->pmu.left[current_mode(env)];
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
            pmu_flush(env);
            pmu_continue(env);
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
        request_sync(cs);
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
    env->pmu.int_mode = current_mode(env);
}

void x86_pmu_refund_int(CPUX86State *env)
{
    int64_t *left = &env->pmu.left[env->pmu.int_mode];

    if (x86_pmu_counting(env_cpu(env))) {
        assert(*left & (PMU_CONDITIONAL - 1));
        *left += PMU_INSN - PMU_BRANCH;
    }
}

/*
 * An instruction that accesses the PMU reads and writes the counts as they were
 * before it, and retires under the configuration that it leaves behind.  It is
 * the last one of its block.  A block that counts has already taken it from the
 * budget: begin_access() gives it back, and end_access() takes it from the new
 * budget.
 */
static void begin_access(CPUX86State *env)
{
    if (x86_pmu_counting(env_cpu(env))) {
        x86_pmu_count_tsc(env);
        env->pmu.left[current_mode(env)] += PMU_INSN;
        pmu_flush(env);
    }
}

static void end_access(CPUX86State *env, int result, uintptr_t ra)
{
    CPUState *cs = env_cpu(env);
    int64_t *left = &env->pmu.left[current_mode(env)];

    pmu_continue(env);
    set_timer(env, current_mode(env));
    if (x86_pmu_counting(cs)) {
        *left -= PMU_INSN;
        if (*left < PMU_INSN) {
            request_sync(cs);
        }
    }
    if (result == PMU_GP) {
        raise_exception_err_ra(env, EXCP0D_GPF, 0, ra);
    }
}

bool x86_pmu_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val, uintptr_t ra)
{
    int result;

    if (!env->pmu.model) {
        return false;
    }
    begin_access(env);
    result = pmu_rdmsr(env->pmu.model, msr, val);
    end_access(env, result, ra);
    return result == PMU_OK;
}

bool x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val, uintptr_t ra)
{
    int result;

    if (!env->pmu.model) {
        return false;
    }
    begin_access(env);
    result = pmu_wrmsr(env->pmu.model, msr, val);
    end_access(env, result, ra);
    return result == PMU_OK;
}

bool x86_pmu_rdpmc(CPUX86State *env, uint64_t *val, uintptr_t ra)
{
    int result;

    if (!env->pmu.model) {
        return false;
    }
    begin_access(env);
    result = pmu_rdpmc(env->pmu.model, env->regs[R_ECX],
                       (env->hflags & HF_CPL_MASK) == 0,
                       env->cr[4] & CR4_PCE_MASK, val);
    end_access(env, result, ra);
    return true;
}

QEMU_BUILD_BUG_ON(X86_PMU_CPUID_ACCESSES != PMU_CPUID_ACCESSES);

bool x86_pmu_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf,
                   uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    uint32_t regs[4];

    if (!cpu->env.pmu.model ||
        !pmu_cpuid(cpu->env.pmu.model, leaf, subleaf, &regs)) {
        return false;
    }
    *eax = regs[0];
    *ebx = regs[1];
    *ecx = regs[2];
    *edx = regs[3];
    return true;
}

/* PmuConfig.vendor, or -1 if it has no PMU.  Hygon's PMU is AMD's. */
static int pmu_vendor(CPUX86State *env)
{
    char vendor[CPUID_VENDOR_SZ + 1];

    x86_cpu_vendor_words2str(vendor, env->cpuid_vendor1, env->cpuid_vendor2,
                             env->cpuid_vendor3);
    if (IS_INTEL_CPU(env) || IS_ZHAOXIN_CPU(env)) {
        return IS_ZHAOXIN_CPU(env) ? 2 : 0;
    }
    if (IS_AMD_CPU(env) || !strcmp(vendor, CPUID_VENDOR_HYGON)) {
        return 1;
    }
    return -1;
}

uint64_t x86_pmu_misc_enable(CPUX86State *env)
{
    if (!env->pmu.model || pmu_vendor(env) == 1) {
        return 0;       /* AMD has no such register */
    }
    return X86_PMU_MISC_ENABLE;
}

void x86_pmu_svm_changed(CPUX86State *env, bool in_insn)
{
    if (!env->pmu.model) {
        return;
    }
    if (in_insn) {
        begin_access(env);
    } else if (x86_pmu_counting(env_cpu(env))) {
        x86_pmu_count_tsc(env);
        pmu_flush(env);
    }
    pmu_set_svm(env->pmu.model, env->efer & MSR_EFER_SVME,
                env->hflags & HF_GUEST_MASK);
    if (in_insn) {
        end_access(env, PMU_OK, 0);
    } else {
        pmu_continue(env);
        set_timer(env, current_mode(env));
        /* These were the flags of a block that will not run. */
        env_cpu(env)->cflags_next_tb = -1;
    }
}

void x86_pmu_reset(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    if (env->pmu.model) {
        pmu_reset(env->pmu.model);
        memset(env->pmu.left, 0, sizeof(env->pmu.left));
        memset(env->pmu.granted, 0, sizeof(env->pmu.granted));
        memset(env->pmu.details, 0, sizeof(env->pmu.details));
        memset(env->pmu.taken, 0, sizeof(env->pmu.taken));
        memset(env->pmu.tsc_passed, 0, sizeof(env->pmu.tsc_passed));
        env->pmu.tsc_counting = false;
        env->pmu.halted = false;
        if (env->pmu.timer) {
            timer_del(env->pmu.timer);
        }
        CPU(cpu)->tcg_cflags &= ~(CF_PMU | CF_PMU_DETAILS);
    }
}

/* Which processor it is, as CPUID leaf 1 reports it. */
static void set_signature(PmuConfig *config, uint32_t eax)
{
    config->family = (eax >> 8) & 0xf;
    if (config->family == 0xf) {
        config->family += (eax >> 20) & 0xff;
    }
    config->model = ((eax >> 4) & 0xf) | ((eax >> 12) & 0xf0);
    config->stepping = eax & 0xf;
}

/* Creates the PMU that the properties describe. */
static PmuBridge *create(X86CPU *cpu, Error **errp)
{
    CPUX86State *env = &cpu->env;
    PmuConfig config = {
        .threads = env->topo_info.threads_per_core,
        .version = cpu->pmu_version,
        .general = cpu->pmu_counters,
        .general_mask = cpu->pmu_counter_mask,
        .fixed = cpu->pmu_fixed,
        .width = cpu->pmu_width,
        .full_width = cpu->pmu_full_width,
        .cpus = current_machine->smp.max_cpus,
        .cpu = CPU(cpu)->cpu_index,
        .hybrid = cpu->pmu_hybrid,
        .ref_cycles = cpu->pmu_ref_cycles,
        .fault = cpu->pmu_fault,
        .count_accesses = cpu->pmu_count_accesses,
    };
    int vendor = pmu_vendor(env);
    PmuBridge *model;
    const char *error;

    if (vendor < 0) {
        error_setg(errp, "pmu=on needs the vendor GenuineIntel, AuthenticAMD, "
                   "HygonGenuine, CentaurHauls or \"  Shanghai  \"");
        return NULL;
    }
    config.vendor = vendor;
    set_signature(&config, env->cpuid_version);
    model = pmu_new(&config, &error);
    if (!model) {
        error_setg(errp, "%s", error);
    }
    return model;
}

void x86_pmu_expand_features(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    uint64_t *features = cpu->pmu_features;
    PmuBridge *model;

    /* x86_pmu_realize() reports errors. */
    model = cpu->enable_pmu ? create(cpu, NULL) : NULL;
    if (!model) {
        return;
    }
    cpu->pmu_level = 0xA;
    if (pmu_perfctr_core(model)) {
        features[FEAT_8000_0001_ECX] |= CPUID_EXT3_PERFCORE;
        cpu->pmu_xlevel = 0x80000022;
    }
    if (pmu_hybrid(model)) {
        features[FEAT_7_0_EDX] |= CPUID_7_0_EDX_HYBRID;
        cpu->pmu_level = 0x1A;
    }
    if (pmu_perfmon_ext(model)) {
        features[FEAT_7_1_EAX] |= CPUID_7_1_EAX_ARCH_PERFMON_EXT;
        cpu->pmu_level = 0x23;
    }
    if (pmu_pdcm(model)) {
        features[FEAT_1_ECX] |= CPUID_EXT_PDCM;
    }
    pmu_free(model);

    for (FeatureWord w = 0; w < FEATURE_WORDS; w++) {
        env->features[w] |= features[w] & ~env->user_features[w];
    }
}

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    if (!cpu->enable_pmu) {
        if (cpu->pmu_version || cpu->pmu_counters || cpu->pmu_counter_mask ||
            cpu->pmu_fixed != PMU_FIXED_DEFAULT || cpu->pmu_width ||
            cpu->pmu_full_width != ON_OFF_AUTO_AUTO || cpu->pmu_hybrid ||
            cpu->pmu_ref_cycles || cpu->pmu_fault || cpu->pmu_count_accesses) {
            error_setg(errp, "pmu-version, pmu-counters, pmu-counter-mask, "
                       "pmu-fixed, pmu-width, pmu-full-width, pmu-hybrid, "
                       "pmu-ref-cycles, pmu-fault and pmu-count-accesses "
                       "need pmu=on");
            return false;
        }
        return true;
    }

    cpu->env.pmu.model = create(cpu, errp);
    if (!cpu->env.pmu.model) {
        return false;
    }
    if (pmu_ref_cycles_are_tsc(cpu->env.pmu.model)) {
        cpu->env.pmu.timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, timer_fired, cpu);
    }
    return true;
}

void x86_pmu_unrealize(X86CPU *cpu)
{
    if (cpu->env.pmu.model) {
        pmu_free(cpu->env.pmu.model);
        cpu->env.pmu.model = NULL;
        timer_free(cpu->env.pmu.timer);
        cpu->env.pmu.timer = NULL;
    }
}

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
        pmu_flush(env);
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
