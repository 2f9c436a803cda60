/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PMU model, as QEMU calls it. Made by cbindgen from src/lib.rs:
 *   BLESS=1 cargo test -p pmu-bridge --test header
 *
 * A PmuBridge belongs to one vCPU, and only the thread that runs this vCPU (or one
 * that has stopped it) may pass it to a function. Before it reads or writes a
 * register or asks for a budget, it tells with pmu_retire() all that has retired,
 * up to but excluding the present instruction.
 */

#ifndef PMU_BRIDGE_H
#define PMU_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * PmuConfig.fixed: as many as the version usually has.
 */
#define PMU_FIXED_USUAL 255

/**
 * An access: done.
 */
#define PMU_OK 0

/**
 * An access: raise #GP, nothing has changed.
 */
#define PMU_GP 1

/**
 * An access: the register is not the PMU's.
 */
#define PMU_NOT_MINE 2

/**
 * The PMU of one vCPU.
 */
typedef struct PmuBridge PmuBridge;

/**
 * Which PMU to be.
 */
typedef struct PmuConfig {
  /**
   * 0 Intel, 1 AMD, 2 Zhaoxin.
   */
  uint8_t vendor;
  /**
   * Intel: the version of architectural performance monitoring, 1 to 6; 0: 4.
   * AMD: 1 the legacy counters, 2 PerfCtrExtCore, 3 PerfMonV2; 0: 3. Zhaoxin: 2;
   * 0: 2.
   */
  uint8_t version;
  /**
   * General counters, 1 to 8 (AMD: 4 with version 1, 6 with version 2, 1 to 15 with
   * version 3); 0: as many as the version usually has.
   */
  uint8_t general;
  /**
   * Fixed counters, 0 to 4 (AMD: 0); PMU_FIXED_USUAL: as many as the version
   * usually has.
   */
  uint8_t fixed;
  /**
   * Bits of a counter, 32 to 48 (AMD: 48); 0: as many as the version usually has.
   */
  uint8_t width;
  /**
   * Intel's version 6: the general counters, bit by bit, if some are missing, and
   * general is 0; 0: none is.
   */
  uint16_t general_mask;
  /**
   * What goes wrong with the PMU: `lose:N`, `delay:N:INSNS`, `repeat:N:INSNS`,
   * `spurious:INSNS`, `status:BITS`, `gp:ADDRESS:AFTER` or `mask-lvtpc`. NULL:
   * nothing.
   */
  const char *fault;
} PmuConfig;

/**
 * What retired in user mode (CPL 1 to 3) and in kernel mode (CPL 0).
 */
typedef struct PmuCounts {
  /**
   * Instructions, branches among them.
   */
  uint64_t instructions[2];
  /**
   * Branches.
   */
  uint64_t branches[2];
} PmuCounts;

/**
 * A new PMU, to be freed by pmu_free(). If there is none such: NULL, and *error
 * says why in one line that need not be freed.
 */
struct PmuBridge *pmu_new(const struct PmuConfig *cfg, const char **error);

/**
 * Frees a PMU; NULL is none.
 */
void pmu_free(struct PmuBridge *pmu);

/**
 * RESET. INIT leaves a PMU as it is.
 */
void pmu_reset(struct PmuBridge *pmu);

/**
 * EAX, EBX, ECX and EDX of CPUID, if the leaf is the PMU's.
 */
bool pmu_cpuid(const struct PmuBridge *pmu, uint32_t leaf, uint32_t subleaf, uint32_t *regs);

/**
 * The value of PERF_CAPABILITIES; CPUID.1:ECX.PDCM is set when it is not 0.
 */
uint64_t pmu_perf_capabilities(const struct PmuBridge *pmu);

/**
 * Whether CPUID.80000001H:ECX.PerfCtrExtCore is set.
 */
bool pmu_perfctr_core(const struct PmuBridge *pmu);

/**
 * Whether CPUID.(7,1):EAX.ArchPerfMonExt is set, and there is leaf 23H.
 */
bool pmu_perfmon_ext(const struct PmuBridge *pmu);

/**
 * Whether the local APIC sets the mask bit of LVTPC when it delivers a PMI: on Intel
 * and Zhaoxin, and on AMD with the defect `mask-lvtpc`.
 */
bool pmu_pmi_masks_lvtpc(const struct PmuBridge *pmu);

/**
 * So much has retired since this was called last.
 */
void pmu_retire(struct PmuBridge *pmu, const struct PmuCounts *delta);

/**
 * RDMSR: PMU_OK, PMU_GP or PMU_NOT_MINE. *value is written with PMU_OK only.
 */
int pmu_rdmsr(struct PmuBridge *pmu, uint32_t msr, uint64_t *value);

/**
 * WRMSR: PMU_OK, PMU_GP or PMU_NOT_MINE.
 */
int pmu_wrmsr(struct PmuBridge *pmu, uint32_t msr, uint64_t value);

/**
 * RDPMC: PMU_OK or PMU_GP. *value is written with PMU_OK only.
 */
int pmu_rdpmc(struct PmuBridge *pmu, uint32_t ecx, bool cpl0, bool cr4_pce, uint64_t *value);

/**
 * Whether some counter counts: what retires must be told.
 */
bool pmu_counting(const struct PmuBridge *pmu);

/**
 * Whether a PMI is due, to be delivered through LVTPC. True once for each.
 */
bool pmu_take_pmi(struct PmuBridge *pmu);

/**
 * How many instructions may retire in each mode before pmu_retire() must be
 * called, if `mode` (0 user, 1 kernel) is the present one: 1 or more in this one,
 * and in the other 0 or more. The instruction that uses up a mode's budget can
 * overflow a counter: call pmu_retire() right after it, before another retires in
 * whatever mode. UINT64_MAX / 4 is no limit.
 */
void pmu_budget(const struct PmuBridge *pmu, unsigned int mode, uint64_t *budget);

#endif  /* PMU_BRIDGE_H */
