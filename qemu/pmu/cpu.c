/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: the life of a PMU, CPUID, and MISC_ENABLE
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "cpu.h"
#include "hw/boards.h"
#include "internal.h"

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
    const X86PMUProperties *p = &cpu->pmu_properties;
    char vendor[CPUID_VENDOR_SZ + 1];
    PmuConfig config = {
        .vendor = vendor,
        .threads = env->topo_info.threads_per_core,
        .version = p->version,
        .general = p->counters,
        .general_mask = p->counter_mask,
        .fixed = p->fixed,
        .width = p->width,
        .full_width = p->full_width,
        .cpus = current_machine->smp.max_cpus,
        .cpu = CPU(cpu)->cpu_index,
        .hybrid = p->hybrid,
        .lbr = p->lbr,
        .ref_cycles = p->ref_cycles,
        .fault = p->fault,
        .count_accesses = p->count_accesses,
    };
    PmuBridge *model;
    const char *error;

    x86_cpu_vendor_words2str(vendor, env->cpuid_vendor1, env->cpuid_vendor2,
                             env->cpuid_vendor3);
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
    uint64_t *features = cpu->pmu_cpuid.features;
    PmuBridge *model;

    /* x86_pmu_realize() reports errors. */
    model = cpu->enable_pmu ? create(cpu, NULL) : NULL;
    if (!model) {
        return;
    }
    cpu->pmu_cpuid.level = 0xA;
    if (pmu_perfctr_core(model)) {
        features[FEAT_8000_0001_ECX] |= CPUID_EXT3_PERFCORE;
        cpu->pmu_cpuid.xlevel = 0x80000022;
    }
    if (pmu_hybrid(model)) {
        features[FEAT_7_0_EDX] |= CPUID_7_0_EDX_HYBRID;
        cpu->pmu_cpuid.level = 0x1A;
    }
    if (pmu_has_arch_lbrs(model)) {
        features[FEAT_7_0_EDX] |= CPUID_7_0_EDX_ARCH_LBR;
        cpu->pmu_cpuid.level = 0x1C;
    }
    if (pmu_perfmon_ext(model)) {
        features[FEAT_7_1_EAX] |= CPUID_7_1_EAX_ARCH_PERFMON_EXT;
        cpu->pmu_cpuid.level = 0x23;
    }
    if (pmu_pdcm(model)) {
        features[FEAT_1_ECX] |= CPUID_EXT_PDCM;
    }
    pmu_free(model);

    for (FeatureWord w = 0; w < FEATURE_WORDS; w++) {
        env->features[w] |= features[w] & ~env->user_features[w];
    }
}

/* Whether all properties have their defaults. */
static bool is_default(const X86PMUProperties *p)
{
    return !p->version && !p->counters && !p->counter_mask &&
           p->fixed == PMU_FIXED_DEFAULT && !p->width &&
           p->full_width == ON_OFF_AUTO_AUTO && p->lbr == PMU_LBR_DEFAULT &&
           !p->hybrid && !p->ref_cycles && !p->fault && !p->count_accesses;
}

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    if (!cpu->enable_pmu) {
        if (is_default(&cpu->pmu_properties)) {
            return true;
        }
        error_setg(errp, "pmu-version, pmu-counters, pmu-counter-mask, "
                   "pmu-fixed, pmu-width, pmu-full-width, pmu-lbr, "
                   "pmu-hybrid, pmu-ref-cycles, pmu-fault and pmu-count-accesses "
                   "need pmu=on");
        return false;
    }

    cpu->env.pmu.model = create(cpu, errp);
    if (!cpu->env.pmu.model) {
        return false;
    }
    x86_pmu_realize_tsc(cpu);
    return true;
}

void x86_pmu_unrealize(X86CPU *cpu)
{
    if (cpu->env.pmu.model) {
        pmu_free(cpu->env.pmu.model);
        cpu->env.pmu.model = NULL;
        x86_pmu_unrealize_tsc(cpu);
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
        x86_pmu_reset_tsc(env);
        memset(env->pmu.branch_filter, 0, sizeof(env->pmu.branch_filter));
        memset(env->pmu.branch_step, 0, sizeof(env->pmu.branch_step));
        x86_pmu_reset_branches(env);
        CPU(cpu)->tcg_cflags &= ~(CF_PMU | CF_PMU_DETAILS | CF_PMU_BRANCHES);
    }
}

/* The time until INIT is that of the mode before. */
void x86_pmu_begin_init(CPUX86State *env)
{
    x86_pmu_count_tsc(env);
}

void x86_pmu_end_init(CPUX86State *env)
{
    x86_pmu_svm_changed(env, false);
    if (env_cpu(env)->halted) {
        x86_pmu_halt(env);      /* until the SIPI */
    }
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

/* The PMU's bits of MISC_ENABLE, which are read-only. */
#define MISC_ENABLE_PMU \
    (MSR_IA32_MISC_ENABLE_EMON | MSR_IA32_MISC_ENABLE_NO_BTS | \
     MSR_IA32_MISC_ENABLE_NO_PEBS)

uint64_t x86_pmu_misc_enable(CPUX86State *env)
{
    /* AMD has no such register. */
    bool exists = env->pmu.model && pmu_has_misc_enable(env->pmu.model);

    return exists ? MISC_ENABLE_PMU : 0;
}

uint64_t x86_pmu_write_misc_enable(CPUX86State *env, uint64_t val)
{
    if (!env->pmu.model) {
        return val;
    }
    return (val & ~(uint64_t)MISC_ENABLE_PMU) | x86_pmu_misc_enable(env);
}
