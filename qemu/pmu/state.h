/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: what cpu.h needs
 *
 * cpu.h includes this file before CPUX86State and X86CPU.
 */

#ifndef I386_TCG_PMU_STATE_H
#define I386_TCG_PMU_STATE_H

/*
 * A branch that the model has not been told of.  Its size is a power of two,
 * so that blocks need no multiplication to find it.
 */
typedef struct X86PMUBranch {
    uint64_t from;
    uint64_t to;
    int64_t left[2];            /* left[] after it */
    int64_t left_before[2];     /* after the one before, for call stacks */
    uint64_t what;              /* x86_pmu_branch_what() */
    uint64_t unused;
} X86PMUBranch;

/* How many of these are kept: a power of two, and at least PMU_LAST_BRANCHES. */
#define X86_PMU_BRANCHES 64

/*
 * The PMU of a vCPU, a part of CPUX86State that reset preserves.  The arrays are
 * by mode: see x86_pmu_mode().
 */
typedef struct X86PMUState {
    struct PmuBridge *model;    /* NULL if the CPU has no PMU */
    int64_t left[2];            /* budget left, branches of both kinds */
    int64_t granted[2];         /* budget at the last report */
    uint64_t details[2];        /* loads, stores, unconditional branches */
    uint64_t taken[2];          /* conditional branches taken */
    int int_mode;               /* of INT n that is being delivered */

    uint8_t branch_filter[2];   /* kinds to record, by mode of the target */
    uint64_t branch_from;       /* of a branch that is being executed */
    int interrupted_mode;       /* before an interrupt is delivered */

    /*
     * The branches that the model has not been told of, by number modulo the size.  With a
     * call stack returns lower the number, also below 0.  Numbers are offsets.
     */
    X86PMUBranch branches[X86_PMU_BRANCHES];
    int64_t branch_end;         /* the next number */
    int64_t branch_highest;     /* highest and lowest branch_end, ... */
    int64_t branch_lowest;      /* ... for call stacks */
    int64_t branch_empty_returns;   /* returns that found no record */
    int64_t branch_left[2];     /* left[] after the last that was no return */
    uint8_t branch_step[2][8];  /* what one adds to branch_end, by mode and kind */
    uint32_t call_stack_depth;  /* 0 if there is no call stack */
    bool logs_events;           /* the model is told of each branch at once */
    uint32_t last_branches;     /* that matter; 0 if there is a call stack */

    /* With pmu-ref-cycles=tsc.  timer is NULL otherwise. */
    QEMUTimer *timer;           /* fires when a counter may overflow */
    uint64_t deadline;          /* of the timer, as a TSC */
    uint64_t tsc;               /* up to which time has been counted */
    uint64_t tsc_passed[2];     /* since the last report */
    uint64_t tsc_until[2];      /* overflow, at the last report */
    bool tsc_counting;          /* whether a counter counts time */
    bool halted;

    uint8_t *saved;             /* state of the model, while it is saved */
    uint32_t saved_size;        /* or loaded */
} X86PMUState;

/*
 * The properties of a PMU: see PmuConfig in pmu_bridge.h.  0 is the default,
 * 0xff for fixed and lbr.
 */
typedef struct X86PMUProperties {
    uint8_t version;
    uint8_t counters;
    uint16_t counter_mask;
    uint8_t fixed;
    uint8_t width;
    OnOffAuto full_width;
    uint8_t lbr;
    char *hybrid;
    char *ref_cycles;
    char *fault;
    bool count_accesses;
} X86PMUProperties;

/* The elements of x86_cpu_properties[] for X86CPU::pmu_properties. */
#define DEFINE_X86_PMU_PROPERTIES() \
    DEFINE_PROP_UINT8("pmu-version", X86CPU, pmu_properties.version, 0), \
    DEFINE_PROP_UINT8("pmu-counters", X86CPU, pmu_properties.counters, 0), \
    DEFINE_PROP_UINT16("pmu-counter-mask", X86CPU, \
                       pmu_properties.counter_mask, 0), \
    DEFINE_PROP_UINT8("pmu-fixed", X86CPU, pmu_properties.fixed, 0xff), \
    DEFINE_PROP_UINT8("pmu-width", X86CPU, pmu_properties.width, 0), \
    DEFINE_PROP_ON_OFF_AUTO("pmu-full-width", X86CPU, \
                            pmu_properties.full_width, ON_OFF_AUTO_AUTO), \
    DEFINE_PROP_UINT8("pmu-lbr", X86CPU, pmu_properties.lbr, 0xff), \
    DEFINE_PROP_STRING("pmu-hybrid", X86CPU, pmu_properties.hybrid), \
    DEFINE_PROP_STRING("pmu-ref-cycles", X86CPU, pmu_properties.ref_cycles), \
    DEFINE_PROP_STRING("pmu-fault", X86CPU, pmu_properties.fault), \
    DEFINE_PROP_BOOL("pmu-count-accesses", X86CPU, \
                     pmu_properties.count_accesses, false)

/* What the PMU has in CPUID: features and the highest leaves. */
typedef struct X86PMUCpuid {
    FeatureWordArray features;
    uint32_t level;
    uint32_t xlevel;
} X86PMUCpuid;

#endif /* I386_TCG_PMU_STATE_H */
