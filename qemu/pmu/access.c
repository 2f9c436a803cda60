/* SPDX-License-Identifier: GPL-2.0 */
/*
 * x86 performance monitoring unit for TCG: registers
 *
 * An instruction that accesses the PMU reads and writes the counts as they were
 * before it, and retires under the configuration that it leaves behind.  It is
 * the last one of its block.  A block that counts has already taken it from the
 * budget: begin_access() gives it back, and end_access() takes it from the new
 * budget.
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "tcg/helper-tcg.h"
#include "internal.h"

static void begin_access(CPUX86State *env)
{
    if (x86_pmu_counting(env_cpu(env))) {
        x86_pmu_count_tsc(env);
        env->pmu.left[x86_pmu_current_mode(env)] += PMU_INSN;
        x86_pmu_flush(env);
    }
}

static void end_access(CPUX86State *env, int result, uintptr_t ra)
{
    CPUState *cs = env_cpu(env);
    int64_t *left = &env->pmu.left[x86_pmu_current_mode(env)];

    x86_pmu_continue(env);
    x86_pmu_set_timer(env, x86_pmu_current_mode(env));
    if (x86_pmu_counting(cs)) {
        *left -= PMU_INSN;
        if (*left < PMU_INSN) {
            x86_pmu_request_sync(cs);
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

void x86_pmu_svm_changed(CPUX86State *env, bool in_insn)
{
    if (!env->pmu.model) {
        return;
    }
    if (in_insn) {
        begin_access(env);
    } else {
        x86_pmu_begin_change(env);
    }
    pmu_set_svm(env->pmu.model, env->efer & MSR_EFER_SVME,
                env->hflags & HF_GUEST_MASK);
    if (in_insn) {
        end_access(env, PMU_OK, 0);
    } else {
        x86_pmu_end_change(env);
    }
}
