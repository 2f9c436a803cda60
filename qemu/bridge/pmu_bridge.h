/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C interface of the PMU model. cbindgen makes this file from src/:
 *   BLESS=1 cargo test -p pmu-bridge --test header
 *
 * A PmuBridge belongs to one vCPU. Only the thread of this vCPU, or a thread that
 * has stopped this vCPU, may pass it to a function.
 *
 * Before an access to a register and before pmu_budget(), call pmu_retire() for all
 * instructions that have retired, without the present one.
 */

#ifndef PMU_BRIDGE_H
#define PMU_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The leaf of CPUID with the accesses to each register, if PmuConfig.count_accesses.
 */
#define PMU_CPUID_ACCESSES 1325400064

/**
 * pmu_tsc_until_overflow(): no counter can overflow.
 */
#define PMU_TSC_NEVER UINT64_MAX

/**
 * Result of an access: success.
 */
#define PMU_OK 0

/**
 * Result of an access: it raises #GP and has changed nothing.
 */
#define PMU_GP 1

/**
 * Result of an access: the address does not belong to the PMU.
 */
#define PMU_UNKNOWN_MSR 2

/**
 * A conditional branch.
 */
#define PMU_KIND_CONDITIONAL 0

/**
 * A near jump to an address in a register or in memory.
 */
#define PMU_KIND_INDIRECT_JUMP 1

/**
 * A near jump by a displacement.
 */
#define PMU_KIND_RELATIVE_JUMP 2

/**
 * A near call of an address in a register or in memory.
 */
#define PMU_KIND_INDIRECT_CALL 3

/**
 * A near call by a displacement, but for a call of the next instruction.
 */
#define PMU_KIND_RELATIVE_CALL 4

/**
 * A near return.
 */
#define PMU_KIND_RETURN 5

/**
 * Everything else that changes RIP, but for debug exceptions, which are not reported.
 */
#define PMU_KIND_OTHER 6

/**
 * A near call of the next instruction.
 */
#define PMU_KIND_CALL_OF_NEXT 7

/**
 * The largest result of pmu_last_branches().
 */
#define PMU_LAST_BRANCHES 33

/**
 * PmuConfig.fixed: the default.
 */
#define PMU_FIXED_DEFAULT 255

/**
 * PmuConfig.lbr: the default.
 */
#define PMU_LBR_DEFAULT 255

/**
 * The PMU of one vCPU.
 */
typedef struct PmuBridge PmuBridge;

/**
 * The configuration of a PMU.
 */
typedef struct PmuConfig {
  /**
   * The vendor as CPUID leaf 0 has it, such as `GenuineIntel`.
   */
  const char *vendor;
  /**
   * How many threads share a core, and with it registers or counters. They are vCPUs with
   * numbers in a row, of which the first is a multiple of this. 0 means 1.
   */
  uint32_t threads;
  /**
   * What CPUID leaf 1 reports: the model, extended model included.
   */
  uint8_t model;
  /**
   * The stepping.
   */
  uint8_t stepping;
  /**
   * The family, extended family included. 0 means that the PMU is that of no particular
   * processor.
   */
  uint16_t family;
  /**
   * Intel: the version of architectural performance monitoring, 1 to 6.
   * AMD: 1 legacy counters, 2 PerfCtrExtCore, 3 PerfMonV2. Zhaoxin: 2.
   *
   * 0 selects the version and the counters of the processor. If the model does not know the
   * processor, 0 selects version 4 (AMD: 3, Zhaoxin: 2) with its default counters. Any other
   * number selects that version with its default counters.
   */
  uint8_t version;
  /**
   * The number of general-purpose counters: 1 to 8 (AMD: 4 in version 1, 6 in version 2,
   * 1 to 15 in version 3). 0 means the default.
   */
  uint8_t general;
  /**
   * The number of fixed-function counters: 0 to 4 (AMD: 0). PMU_FIXED_DEFAULT means the
   * default.
   */
  uint8_t fixed;
  /**
   * The width of a counter in bits: 32 to 48 (AMD: 48). 0 means the default.
   */
  uint8_t width;
  /**
   * Intel: whether there are aliases for full-width writes: 1 yes, 2 no. 0 means the
   * default. QEMU's OnOffAuto has the same values.
   */
  uint8_t full_width;
  /**
   * Intel's version 6: a bitmap of the general-purpose counters, instead of general,
   * which must then be 0. 0 means that none is missing.
   */
  uint16_t general_mask;
  /**
   * The number of vCPUs, and the number of this one, which is less.
   */
  uint32_t cpus;
  uint32_t cpu;
  /**
   * Which of them are the efficient cores of a hybrid processor: `E` or `E+L`. The last L
   * are low-power ones, and the E before them the other ones. NULL means that the processor
   * is not a hybrid one.
   */
  const char *hybrid;
  /**
   * The number of last branch records (LBRs), 0 if there are none: 8, 16 or 32 architectural ones, on a
   * processor with legacy ones 4, 8, 16 or 32, on AMD 1 to 32. PMU_LBR_DEFAULT means those of the processor, if
   * the version can have them. Without a processor that the model knows, there are none then.
   */
  uint8_t lbr;
  /**
   * What reference cycles are: `instructions`, a function of these, or `tsc`, the cycles of
   * the time-stamp counter. NULL means the default, `instructions`.
   */
  const char *ref_cycles;
  /**
   * The defect of the PMU, in one of the forms that qemu/README.md lists for `pmu-fault`. NULL
   * means none.
   */
  const char *fault;
  /**
   * Whether accesses are counted. Software reads the counts in CPUID leaf PMU_CPUID_ACCESSES.
   */
  bool count_accesses;
} PmuConfig;

/**
 * What retired in user mode (CPL 1 to 3, index 0) and in kernel mode (CPL 0, index 1).
 */
typedef struct PmuCounts {
  /**
   * Instructions, branches included.
   */
  uint64_t instructions[2];
  /**
   * Branches.
   */
  uint64_t branches[2];
  /**
   * The branches that are conditional, taken or not.
   */
  uint64_t conditional[2];
  /**
   * Conditional branches that were taken. This and what follows, but for tsc, count only if
   * pmu_counts_details().
   */
  uint64_t conditional_taken[2];
  /**
   * Branches within the code segment that are not conditional.
   */
  uint64_t near_unconditional[2];
  /**
   * Instructions that load from memory.
   */
  uint64_t loads[2];
  /**
   * Instructions that store to memory.
   */
  uint64_t stores[2];
  /**
   * The cycles of the time-stamp counter that passed while the vCPU was not halted. They
   * matter if pmu_ref_cycles_are_tsc().
   */
  uint64_t tsc[2];
} PmuCounts;

/**
 * A branch that was taken.
 */
typedef struct PmuBranch {
  /**
   * The linear address of the branch, or of the instruction before which an interrupt or an
   * exception came.
   */
  uint64_t from;
  /**
   * The linear address of the next instruction.
   */
  uint64_t to;
  /**
   * What has retired since pmu_retire(), the branch included. All but instructions and branches matter only
   * if pmu_logs_events().
   */
  struct PmuCounts retired;
  /**
   * PMU_KIND_.
   */
  uint8_t kind;
  /**
   * The mode before and after the branch: 0 user, 1 kernel.
   */
  uint8_t from_mode;
  uint8_t to_mode;
  /**
   * Whether an instruction retires with it: not with an interrupt or an exception.
   */
  bool retires;
} PmuBranch;

/**
 * Creates a PMU, which pmu_free() frees. If there is no such PMU, returns NULL and sets
 * *error to a message of one line, which must not be freed.
 *
 * # Safety
 *
 * Each of cfg->vendor, cfg->fault, cfg->hybrid and cfg->ref_cycles is NULL or points to a
 * NUL-terminated string that is valid during the call.
 */
struct PmuBridge *pmu_new(const struct PmuConfig *cfg, const char **error);

/**
 * Frees a PMU. NULL is ignored.
 */
void pmu_free(struct PmuBridge *pmu);

/**
 * RESET. INIT does not change a PMU.
 */
void pmu_reset(struct PmuBridge *pmu);

/**
 * AMD: sets EFER.SVME, and whether the vCPU runs a guest. RESET clears both. Call
 * pmu_retire() before.
 */
void pmu_set_svm(struct PmuBridge *pmu, bool svme, bool guest);

/**
 * CPUID: sets *regs to EAX, EBX, ECX and EDX. Returns false, and leaves *regs alone, if
 * the leaf does not belong to the PMU.
 */
bool pmu_cpuid(const struct PmuBridge *pmu, uint32_t leaf, uint32_t subleaf, uint32_t (*regs)[4]);

/**
 * CPUID.1:ECX.PDCM: whether PERF_CAPABILITIES exists.
 */
bool pmu_pdcm(const struct PmuBridge *pmu);

/**
 * Whether there is a MISC_ENABLE, which says that there is a PMU: on Intel and Zhaoxin.
 */
bool pmu_has_misc_enable(const struct PmuBridge *pmu);

/**
 * CPUID.80000001H:ECX.PerfCtrExtCore.
 */
bool pmu_perfctr_core(const struct PmuBridge *pmu);

/**
 * CPUID.(7,1):EAX.ArchPerfMonExt: whether leaf 23H exists.
 */
bool pmu_perfmon_ext(const struct PmuBridge *pmu);

/**
 * CPUID.(7,0):EDX.Hybrid: whether leaf 1AH exists.
 */
bool pmu_hybrid(const struct PmuBridge *pmu);

/**
 * Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI: on Intel and
 * Zhaoxin, and on AMD with the defect `mask-lvtpc`.
 */
bool pmu_pmi_masks_lvtpc(const struct PmuBridge *pmu);

/**
 * Whether reference cycles are those of the time-stamp counter: the caller reports them, and
 * calls pmu_tsc_until_overflow().
 */
bool pmu_ref_cycles_are_tsc(const struct PmuBridge *pmu);

/**
 * Reports what has retired since the last call, and the time that has passed.
 */
void pmu_retire(struct PmuBridge *pmu, const struct PmuCounts *delta);

/**
 * Sets *until to the cycles of the time-stamp counter that may pass in each mode before the
 * next call of pmu_retire(), or to PMU_TSC_NEVER.
 *
 * The cycles that have passed by then may be the ones that overflow a counter. One that counts
 * in both modes overflows after so many in both together.
 */
void pmu_tsc_until_overflow(const struct PmuBridge *pmu, uint64_t (*until)[2]);

/**
 * RDMSR: returns PMU_OK, PMU_GP or PMU_UNKNOWN_MSR. *value is set with PMU_OK only.
 */
int pmu_rdmsr(const struct PmuBridge *pmu, uint32_t msr, uint64_t *value);

/**
 * WRMSR: returns PMU_OK, PMU_GP or PMU_UNKNOWN_MSR.
 */
int pmu_wrmsr(struct PmuBridge *pmu, uint32_t msr, uint64_t value);

/**
 * RDPMC: returns PMU_OK or PMU_GP. *value is set with PMU_OK only.
 */
int pmu_rdpmc(struct PmuBridge *pmu, uint32_t ecx, bool cpl0, bool cr4_pce, uint64_t *value);

/**
 * Whether pmu_retire() must be called for what retires.
 */
bool pmu_counting(const struct PmuBridge *pmu);

/**
 * Whether a counter counts more than what depends on the numbers of instructions, branches and
 * conditional branches. It is false if pmu_counting() is.
 */
bool pmu_counts_details(const struct PmuBridge *pmu);

/**
 * Takes the pending PMI, which the caller delivers through LVTPC. Returns whether there
 * was one.
 */
bool pmu_take_pmi(struct PmuBridge *pmu);

/**
 * Sets *budget to the number of instructions of each mode that may retire before the next
 * call of pmu_retire(), if the vCPU is in `mode` (0 user, 1 kernel).
 *
 * The budget of this mode is at least 1, that of the other mode may be 0. The instruction
 * that uses up the budget of its mode may be the one that overflows a counter: call
 * pmu_retire() right after it, before an instruction of either mode retires.
 * UINT64_MAX / 4 means no limit.
 */
void pmu_budget(const struct PmuBridge *pmu, unsigned int mode, uint64_t (*budget)[2]);

/**
 * Whether there are architectural LBRs: CPUID.(7,0):EDX.ARCH_LBR.
 */
bool pmu_has_arch_lbrs(const struct PmuBridge *pmu);

/**
 * Whether there are LBRs of any kind: pmu_debug_exception() must be called.
 */
bool pmu_has_lbrs(const struct PmuBridge *pmu);

/**
 * Sets *filter to the kinds of branches that pmu_branch() must be told of, by the mode after the
 * branch: bit PMU_KIND_. It may change with each access to a register and each pmu_retire().
 */
void pmu_branch_filter(const struct PmuBridge *pmu, uint8_t (*filter)[2]);

/**
 * Whether records say what counters have counted: pmu_branch() must be told of all branches that
 * pmu_branch_filter() has, and of all that has retired. It may change as the filter may.
 */
bool pmu_logs_events(const struct PmuBridge *pmu);

/**
 * How many of the last branches matter that pmu_branch_filter() has: of those between two calls of
 * pmu_retire() or pmu_interrupt(), pmu_branch() need not be told of earlier ones, but pmu_skip_branches() of
 * their number. At most PMU_LAST_BRANCHES, or 0 if a return removes the record of its call. It may change as
 * the filter may.
 */
uint32_t pmu_last_branches(const struct PmuBridge *pmu);

/**
 * So many branches that pmu_branch_filter() has were taken, and do not matter. Call it before pmu_branch() is
 * told of those that do.
 */
void pmu_skip_branches(struct PmuBridge *pmu,
                       int64_t branches);

/**
 * Records a branch that was taken since the last pmu_retire(), if pmu_branch_filter() has it. Branches
 * are told in the order in which they were taken.
 */
void pmu_branch(struct PmuBridge *pmu,
                const struct PmuBranch *branch);

/**
 * The number of records if a return removes the one of its call, otherwise 0. It may change as the filter
 * may. If it is not 0, pmu_branch() need not be told of branches whose records are gone before the next
 * pmu_retire() or pmu_interrupt(). Tell this instead, in this order:
 *
 * - pmu_drop_records();
 * - pmu_skip_branches() of the branches that leave no record after this, less the returns that found no
 *   record;
 * - pmu_branch() for each record that is left, the oldest first. Before each: pmu_branch_was_recorded() for
 *   the branch before it that was no return, even if its record is gone, unless that branch came before the
 *   last pmu_retire() or pmu_interrupt();
 * - pmu_branch_was_recorded() for the last one that was no return, if there was any.
 */
uint32_t pmu_call_stack_depth(const struct PmuBridge *pmu);

/**
 * Of the records at the last pmu_retire() or pmu_interrupt(), newer ones have moved out the `oldest`, and
 * returns have removed the `youngest`.
 */
void pmu_drop_records(struct PmuBridge *pmu,
                      uint64_t oldest,
                      uint64_t youngest);

/**
 * A branch has been recorded when so many instructions and branches of each mode had retired since
 * pmu_retire().
 */
void pmu_branch_was_recorded(struct PmuBridge *pmu,
                             const uint64_t (*instructions)[2],
                             const uint64_t (*branches)[2]);

/**
 * Whether pmu_interrupt() must be called.
 */
bool pmu_has_last_event(const struct PmuBridge *pmu);

/**
 * An interrupt is delivered, or an exception that is no debug exception. Tell of the branches before it as
 * before pmu_retire(), and of the branch to its handler after it. It need not be told while
 * pmu_branch_filter() is 0 in both modes.
 */
void pmu_interrupt(struct PmuBridge *pmu);

/**
 * A debug exception is delivered, which stops the recording of branches. Call pmu_retire() before.
 */
void pmu_debug_exception(struct PmuBridge *pmu);

/**
 * Writes the state of the PMU to the `size` bytes at `buffer` if there is room for it. Returns the
 * number of bytes that it has. Call pmu_retire() before.
 *
 * # Safety
 *
 * `buffer` is valid for writes of `size` bytes, or `size` is 0.
 */
size_t pmu_save(const struct PmuBridge *pmu, uint8_t *buffer, size_t size);

/**
 * Restores a state of `size` bytes that pmu_save() has written, of this PMU or of one with the same
 * configuration. Returns NULL, or a message of one line, which must not be freed; then the PMU is
 * as it was.
 *
 * Restore the PMUs of all vCPUs before one of them runs.
 *
 * # Safety
 *
 * `state` is valid for reads of `size` bytes, or `size` is 0.
 */
const char *pmu_restore(struct PmuBridge *pmu, const uint8_t *state, size_t size);

#endif  /* PMU_BRIDGE_H */
