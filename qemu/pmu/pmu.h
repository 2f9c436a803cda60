/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: what QEMU calls
 *
 * A model in a separate library implements the PMU's registers, events and
 * overflows (pmu_bridge.h).  The functions here report retired instructions
 * and branches to the model, and stop the vCPU where a counter may overflow.
 */

#ifndef I386_TCG_PMU_H
#define I386_TCG_PMU_H

#include "cpu.h"
#include "exec/translation-block.h"

/* PMU_CPUID_ACCESSES of pmu_bridge.h: a leaf of no range that has a limit. */
#define X86_PMU_CPUID_ACCESSES  0x4f000000

#ifdef CONFIG_USER_ONLY
static inline bool x86_pmu_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf,
                                 uint32_t *eax, uint32_t *ebx,
                                 uint32_t *ecx, uint32_t *edx)
{
    return false;
}

static inline bool x86_pmu_rdpmc(CPUX86State *env, uint64_t *val, uintptr_t ra)
{
    return false;
}

static inline void x86_pmu_refund_int(CPUX86State *env)
{
}

static inline void x86_pmu_begin_interrupt(CPUX86State *env)
{
}

static inline void x86_pmu_end_interrupt(CPUX86State *env, int intno,
                                         bool is_int)
{
}

static inline void x86_pmu_expand_features(X86CPU *cpu)
{
}

static inline uint64_t x86_pmu_misc_enable(CPUX86State *env)
{
    return 0;
}
#else
/* cpu.c: the life of a PMU, CPUID, and MISC_ENABLE */

bool x86_pmu_realize(X86CPU *cpu, Error **errp);
void x86_pmu_unrealize(X86CPU *cpu);
void x86_pmu_reset(X86CPU *cpu);

/* INIT begins, and ends.  It does not reset the PMU. */
void x86_pmu_begin_init(CPUX86State *env);
void x86_pmu_end_init(CPUX86State *env);

/* Add the PMU to CPUID, but for what the user has set explicitly. */
void x86_pmu_expand_features(X86CPU *cpu);

bool x86_pmu_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf,
                   uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx);

/* The PMU's bits of MISC_ENABLE after RESET. */
uint64_t x86_pmu_misc_enable(CPUX86State *env);
/* What MISC_ENABLE is after a write of @val: the PMU's bits are read-only. */
uint64_t x86_pmu_write_misc_enable(CPUX86State *env, uint64_t val);

/* count.c: instructions */

/*
 * x86_pmu_sync: report to the model, between two instructions
 *
 * Delivers a pending PMI, and gets a new budget.
 */
void x86_pmu_sync(CPUX86State *env);

/*
 * x86_pmu_refund: uncount the last @insns instructions of @tb
 *
 * This is TCGCPUOps::unwind_insns.
 */
void x86_pmu_refund(CPUState *cs, const TranslationBlock *tb, int insns);

/*
 * The delivery of INT n, INT3 or INTO begins; it faults, and the instruction is
 * uncounted.  The mode can change in between, by a task gate.
 */
void x86_pmu_begin_int(CPUX86State *env);
void x86_pmu_refund_int(CPUX86State *env);

/* branch.c: branch records */

/*
 * The delivery of an interrupt or exception begins; it has been delivered.  @is_int
 * says whether INT n, INT3 or INTO is the cause.
 */
void x86_pmu_begin_interrupt(CPUX86State *env);
void x86_pmu_end_interrupt(CPUX86State *env, int intno, bool is_int);

/* access.c: registers */

/*
 * RDMSR, WRMSR and RDPMC.  Return false if the CPU has no PMU, or if the
 * address does not belong to it.  Raise #GP where the PMU does.  @ra is
 * GETPC() of the helper.
 */
bool x86_pmu_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val, uintptr_t ra);
bool x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val, uintptr_t ra);
bool x86_pmu_rdpmc(CPUX86State *env, uint64_t *val, uintptr_t ra);

/*
 * x86_pmu_svm_changed: EFER.SVME or HF_GUEST_MASK may have changed
 *
 * @in_insn says whether this is the effect of an instruction, which must be the
 * last of its block, or happens between two instructions.
 */
void x86_pmu_svm_changed(CPUX86State *env, bool in_insn);

/* time.c: the TSC, which counters count with pmu-ref-cycles=tsc */

/* HLT, before the vCPU halts: a PMI that is pending must wake it up. */
void x86_pmu_hlt(CPUX86State *env);
/* The vCPU runs again. */
void x86_pmu_wake(CPUX86State *env);
/* cpu.h declares x86_pmu_cpl_changes(). */

/* vmstate.c: a subsection of the CPU, the state of its PMU */
extern const VMStateDescription vmstate_x86_pmu;
#endif

#endif /* I386_TCG_PMU_H */
