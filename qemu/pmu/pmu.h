/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG
 *
 * A model in a separate library implements the PMU's registers, events and
 * overflows (pmu_bridge.h).  The functions here report retired instructions
 * and branches to the model, and stop the vCPU where a counter may overflow.
 */

#ifndef I386_TCG_PMU_H
#define I386_TCG_PMU_H

#include "cpu.h"
#include "exec/translation-block.h"

/*
 * CPUX86State::pmu.left[] holds three numbers in one word, so that a block can
 * count with one load, one addition and one store:
 *
 * - in units of PMU_INSN, the remaining budget: the instructions that may
 *   retire before the next report to the model;
 * - in units of PMU_CONDITIONAL, the conditional branches that have retired
 *   since the last report;
 * - in units of PMU_BRANCH, all branches that have.
 */
#define PMU_FIELD_BITS  20
#define PMU_BRANCH      1LL
#define PMU_CONDITIONAL (PMU_BRANCH << PMU_FIELD_BITS)
#define PMU_INSN        (PMU_CONDITIONAL << PMU_FIELD_BITS)

/* The highest budget.  It limits the branches, too: no field overflows. */
#define PMU_MAX_BUDGET  (1 << (PMU_FIELD_BITS - 1))

/* What is counted for an instruction.  One that always faults has none. */
#define PMU_INSN_RETIRES        1
#define PMU_INSN_BRANCHES       2
#define PMU_INSN_CONDITIONAL    4
#define PMU_INSN_NEAR           8       /* within the code segment */
#define PMU_INSN_DETAILED       16      /* its details have been counted */

/*
 * With CF_PMU_DETAILS, CPUX86State::pmu.details[] holds three more numbers.  An
 * instruction adds to it when it has retired, so that nothing is given back.
 */
#define PMU_LOAD        1ULL
#define PMU_STORE       (PMU_LOAD << PMU_FIELD_BITS)
#define PMU_NEAR        (PMU_STORE << PMU_FIELD_BITS)

/* PMU_CPUID_ACCESSES of pmu_bridge.h: a leaf of no range that has a limit. */
#define X86_PMU_CPUID_ACCESSES  0x4f000000

/* The index into pmu.left[], which is also the mode of pmu_bridge.h. */
static inline int x86_pmu_mode(int cpl)
{
    return cpl == 0 ? 1 : 0;
}

/*
 * What the last @insns instructions of a block take from pmu.left[].  @last has
 * the PMU_INSN_ flags of the very last one: no other is a branch.
 */
static inline int64_t x86_pmu_debit(int insns, unsigned last)
{
    return (insns - !(last & PMU_INSN_RETIRES)) * PMU_INSN -
           !!(last & PMU_INSN_BRANCHES) * PMU_BRANCH -
           !!(last & PMU_INSN_CONDITIONAL) * PMU_CONDITIONAL;
}

/* The instructions in a value of pmu.left[]. */
static inline int64_t x86_pmu_insns(int64_t left)
{
    return left >> (2 * PMU_FIELD_BITS);
}

/* Whether @cs counts, which means that it runs blocks with CF_PMU. */
static inline bool x86_pmu_counting(CPUState *cs)
{
    return cs->tcg_cflags & CF_PMU;
}

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

static inline void x86_pmu_expand_features(X86CPU *cpu)
{
}

static inline uint64_t x86_pmu_misc_enable(CPUX86State *env)
{
    return 0;
}
#else
/* Add the PMU to CPUID, but for what the user has set explicitly. */
void x86_pmu_expand_features(X86CPU *cpu);

bool x86_pmu_realize(X86CPU *cpu, Error **errp);
void x86_pmu_unrealize(X86CPU *cpu);
void x86_pmu_reset(X86CPU *cpu);
bool x86_pmu_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf,
                   uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx);

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

/*
 * RDMSR, WRMSR and RDPMC.  Return false if the CPU has no PMU, or if the
 * address does not belong to it.  Raise #GP where the PMU does.  @ra is
 * GETPC() of the helper.
 */
bool x86_pmu_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val, uintptr_t ra);
bool x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val, uintptr_t ra);
bool x86_pmu_rdpmc(CPUX86State *env, uint64_t *val, uintptr_t ra);

/* The PMU's bits of MISC_ENABLE, which are read-only, and their values. */
#define X86_PMU_MISC_ENABLE \
    (MSR_IA32_MISC_ENABLE_EMON | MSR_IA32_MISC_ENABLE_NO_BTS | \
     MSR_IA32_MISC_ENABLE_NO_PEBS)
uint64_t x86_pmu_misc_enable(CPUX86State *env);

/*
 * x86_pmu_svm_changed: EFER.SVME or HF_GUEST_MASK may have changed
 *
 * @in_insn says whether this is the effect of an instruction, which must be the
 * last of its block, or happens between two instructions.
 */
void x86_pmu_svm_changed(CPUX86State *env, bool in_insn);

/*
 * Time, which counters count with pmu-ref-cycles=tsc.
 *
 * x86_pmu_count_tsc: count the time since the last call for the present mode
 * x86_pmu_halt: no time passes until x86_pmu_wake(); call x86_pmu_sync() before
 *
 * cpu.h has x86_pmu_cpl_changes().
 */
void x86_pmu_count_tsc(CPUX86State *env);
void x86_pmu_halt(CPUX86State *env);
void x86_pmu_wake(CPUX86State *env);

/* A subsection of the CPU: the state of its PMU. */
extern const VMStateDescription vmstate_x86_pmu;
#endif

#endif /* I386_TCG_PMU_H */
