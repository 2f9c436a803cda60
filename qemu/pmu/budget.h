/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: the words in which blocks count
 *
 * The translator emits code that changes them, and count.c reads them.
 */

#ifndef I386_TCG_PMU_BUDGET_H
#define I386_TCG_PMU_BUDGET_H

/*
 * X86PMUState::left[] holds three numbers in one word, so that a block can count
 * with one load, one addition and one store:
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
 * With CF_PMU_DETAILS, X86PMUState::details[] holds three more numbers.  An
 * instruction adds to it when it has retired, so that nothing is given back.
 */
#define PMU_LOAD        1ULL
#define PMU_STORE       (PMU_LOAD << PMU_FIELD_BITS)
#define PMU_NEAR        (PMU_STORE << PMU_FIELD_BITS)

/* The kinds of branches that are recorded: PMU_KIND_ of pmu_bridge.h. */
#define PMU_BRANCH_CONDITIONAL      0
#define PMU_BRANCH_INDIRECT_JUMP    1
#define PMU_BRANCH_RELATIVE_JUMP    2
#define PMU_BRANCH_INDIRECT_CALL    3
#define PMU_BRANCH_RELATIVE_CALL    4
#define PMU_BRANCH_RETURN           5
#define PMU_BRANCH_OTHER            6
#define PMU_BRANCH_CALL_OF_NEXT     7
#define PMU_BRANCH_NONE             (-1)

/*
 * How blocks record near branches: the three bits of CF_PMU_BRANCHES.  If one is
 * set, all blocks call a helper for far branches, which may lead to the other mode.
 *
 * - PMU_RECORD_MODE(mode): blocks of this mode call a helper for calls and
 *   returns, and record no jumps.
 * - With PMU_RECORD_ALL they record all kinds, and without a helper.
 * - PMU_RECORD_ALL alone: blocks of both modes call a helper for all kinds.
 */
#define PMU_RECORD_MODE(mode)       (0x00200000 << (mode))
#define PMU_RECORD_ALL              0x00800000

/* The kinds of near branches that are neither calls nor returns. */
#define PMU_JUMPS                   ((1 << PMU_BRANCH_CONDITIONAL) | \
                                     (1 << PMU_BRANCH_INDIRECT_JUMP) | \
                                     (1 << PMU_BRANCH_RELATIVE_JUMP))

/* What X86PMUBranch::what says: the kind, both modes, and whether it retires. */
static inline uint32_t x86_pmu_branch_what(int kind, int from_mode,
                                           int to_mode, bool retires)
{
    return kind | (from_mode << 8) | (to_mode << 16) | (retires << 24);
}

/* The index into left[], which is also the mode of pmu_bridge.h. */
static inline int x86_pmu_mode(int cpl)
{
    return cpl == 0 ? 1 : 0;
}

/*
 * What the last @insns instructions of a block take from left[].  @last has the
 * PMU_INSN_ flags of the very last one: no other is a branch.
 */
static inline int64_t x86_pmu_debit(int insns, unsigned last)
{
    return (insns - !(last & PMU_INSN_RETIRES)) * PMU_INSN -
           !!(last & PMU_INSN_BRANCHES) * PMU_BRANCH -
           !!(last & PMU_INSN_CONDITIONAL) * PMU_CONDITIONAL;
}

/* The instructions in a value of left[]. */
static inline int64_t x86_pmu_insns(int64_t left)
{
    return left >> (2 * PMU_FIELD_BITS);
}

#endif /* I386_TCG_PMU_BUDGET_H */
