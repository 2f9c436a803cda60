# SPDX-License-Identifier: GPL-2.0
#
# The code of the workloads. The comment before each function gives its
# arguments in parentheses, then the number of user instructions that it retires,
# which src/workload.rs relies on.

# u64 guest_measure(int fd, void (*f)(u64, u64), u64 a, u64 b, u64 flags)
#
# Enables the event fd, calls f(a, b), disables the event. The event counts
# exactly the instructions after the first SYSCALL, up to and including the
# second.
	.globl	guest_measure
guest_measure:
	push	rbx
	push	r12
	push	r13
	push	r14
	push	r15
	mov	ebx, edi
	mov	r12, rsi
	mov	r13, rdx
	mov	r14, rcx
	mov	r15, r8
	mov	esi, 0x2400		# PERF_EVENT_IOC_ENABLE
	mov	rdx, r15
	mov	eax, 16			# ioctl
	syscall
	mov	rdi, r13		# 3 before f
	mov	rsi, r14
	call	r12
	.globl	guest_measure_return
guest_measure_return:
	mov	edi, ebx		# 5 after f
	mov	esi, 0x2401		# PERF_EVENT_IOC_DISABLE
	mov	rdx, r15
	mov	eax, 16
	syscall
	pop	r15
	pop	r14
	pop	r13
	pop	r12
	pop	rbx
	ret

# (n): 2n + 510
#
# With the call and the return, 64 of them load and 64 store.
	.globl	guest_padded_loop
guest_padded_loop:
	.rept	63
	mov	rax, [rsp]
	mov	[rsp - 8], rax
	.endr
	.rept	383
	nop
	.endr
1:	dec	rdi
	jnz	1b
	ret

# (): 1
	.globl	guest_empty
guest_empty:
	ret

# (n): 2n + 1
	.globl	guest_loop
guest_loop:
	dec	rdi
	jnz	guest_loop
	ret

# (n): 7n + 1, 5n + 1 of them branches
	.globl	guest_branches
guest_branches:
	test	rdi, rdi
	jz	3f			# never taken
	jmp	1f
1:	call	2f
	dec	rdi
	jnz	guest_branches
2:	ret
3:	ud2

# (n): 15n + 1. A NOP has one byte, DEC three.
	.globl	guest_block
guest_block:
	.rept	13
	nop
	.endr
	dec	rdi
	jnz	guest_block
	ret

# (call, n): 4n + 8; the SYSCALL is number 2n + 7. call points to the number of
# the system call and its first three arguments.
	.globl	guest_around_call
guest_around_call:
	mov	r8, rdi
	mov	r9, rsi
1:	dec	rsi
	jnz	1b
	mov	rax, [r8]
	mov	rdi, [r8 + 8]
	mov	rsi, [r8 + 16]
	mov	rdx, [r8 + 24]
	syscall
2:	dec	r9
	jnz	2b
	ret

# (n): 2n + 14. The loop is two calls deep. The chain of frame pointers ends with
# the outermost of the three functions.
	.globl	guest_chain
guest_chain:
	push	rbp
	xor	ebp, ebp
	call	1f
	.globl	guest_chain_outer
guest_chain_outer:			# a return address
	pop	rbp
	ret
1:	push	rbp
	mov	rbp, rsp
	call	2f
	.globl	guest_chain_middle
guest_chain_middle:			# a return address
	pop	rbp
	ret
2:	push	rbp
	mov	rbp, rsp
	.globl	guest_chain_leaf
guest_chain_leaf:
	dec	rdi
	jnz	guest_chain_leaf
	pop	rbp
	ret

# (n, depth): 2n + 5 depth + 3. Calls itself as often as depth says, then loops.
	.globl	guest_nested
guest_nested:
	test	rsi, rsi
	jz	1f
	dec	rsi
	call	guest_nested
	.globl	guest_nested_return
guest_nested_return:
	ret
1:	dec	rdi
	jnz	1b
	ret

# (n, depth). Calls itself as often as depth says, then yields n times.
	.globl	guest_nested_yields
guest_nested_yields:
	test	rsi, rsi
	jz	1f
	dec	rsi
	call	guest_nested_yields
	ret
1:	mov	eax, 24			# sched_yield
	syscall
	dec	rdi
	jnz	1b
	ret

# (n): 2n + 32, 24 of them before the loop. In the loop each register except RDI
# and RSP holds 7e57000000000000H plus its number (PERF_REG_X86_*). The stack
# holds 7e570003H, 7e570002H, 7e570001H and 7e570000H from RSP up, 8 bytes each.
	.globl	guest_registers
guest_registers:
	push	rbx
	push	rbp
	push	r12
	push	r13
	push	r14
	push	r15
	push	0x7e570000
	push	0x7e570001
	push	0x7e570002
	push	0x7e570003
	mov	rax, 0x7e57000000000000
	mov	rbx, 0x7e57000000000001
	mov	rcx, 0x7e57000000000002
	mov	rdx, 0x7e57000000000003
	mov	rsi, 0x7e57000000000004
	mov	rbp, 0x7e57000000000006
	mov	r8, 0x7e57000000000010
	mov	r9, 0x7e57000000000011
	mov	r10, 0x7e57000000000012
	mov	r11, 0x7e57000000000013
	mov	r12, 0x7e57000000000014
	mov	r13, 0x7e57000000000015
	mov	r14, 0x7e57000000000016
	mov	r15, 0x7e57000000000017
	.globl	guest_registers_loop
guest_registers_loop:
	dec	rdi
	jnz	guest_registers_loop
	add	rsp, 32
	pop	r15
	pop	r14
	pop	r13
	pop	r12
	pop	rbp
	pop	rbx
	ret

# (memory, n): 25n + 3, all kinds of branches, loads and stores. The comment says
# which kind each instruction is.
	.globl	guest_kinds
guest_kinds:
	mov	r8, rdi
	mov	r9, rsi
1:	mov	rax, [r8]		# load
	mov	[r8 + 8], rax		# store
	add	qword ptr [r8 + 16], 1	# both
	lock xadd [r8 + 24], rax	# both
	xchg	rax, [r8 + 24]		# both
	cmp	byte ptr [r8], 1	# load
	lea	rax, [r8 + 8]
	nop	dword ptr [r8]
	push	rax			# store
	pop	rax			# load
	movups	xmm0, [r8]		# load
	movups	[r8 + 32], xmm0		# store
	fld	tbyte ptr [r8 + 48]	# load
	fstp	tbyte ptr [r8 + 48]	# store
	lea	rsi, [r8 + 64]
	lea	rdi, [r8 + 96]
	mov	ecx, 16
	rep movsb			# both
	call	3f			# store, near
	xor	eax, eax
	jnz	4f			# never taken
	jmp	2f			# near
2:	dec	r9
	jnz	1b			# taken n - 1 times
	ret				# load, near
3:	ret				# load, near
4:	ud2

# (page, n): 4n + 1, with n page faults if the pages are fresh
	.globl	guest_touch
guest_touch:
	mov	byte ptr [rdi], 1
	add	rdi, 4096
	dec	rsi
	jnz	guest_touch
	ret

# (dst, len): 4; the source is dst + len
	.globl	guest_rep_movsb
guest_rep_movsb:
	mov	rcx, rsi
	add	rsi, rdi
	rep movsb
	ret

# (dst, len): 4
	.globl	guest_rep_stosb
guest_rep_stosb:
	mov	rcx, rsi
	mov	al, 0x5a
	rep stosb
	ret

# (buf, len): 4; no byte of buf is 0xff
	.globl	guest_repne_scasb
guest_repne_scasb:
	mov	rcx, rsi
	mov	al, 0xff
	repne scasb
	ret

# (buf, n): 4n + 1. A REP with a count of 0 retires once.
	.globl	guest_rep_nothing
guest_rep_nothing:
	xor	ecx, ecx
	rep stosb
	dec	rsi
	jnz	guest_rep_nothing
	ret

# (n): 4n + 1
	.globl	guest_syscall
guest_syscall:
	mov	eax, 39			# getpid
	syscall
	.globl	guest_syscall_return
guest_syscall_return:
	dec	rdi
	jnz	guest_syscall
	ret

# (n): 2n + 1, plus guest_skip2 and guest_restorer n times. UD2 never retires.
	.globl	guest_ud2
guest_ud2:
	ud2
	dec	rdi
	jnz	guest_ud2
	ret

# (n): 2n + 2, plus guest_skip2 and guest_restorer n times. A DIV that faults
# never retires.
	.globl	guest_div0
guest_div0:
	xor	ecx, ecx
1:	div	ecx
	dec	rdi
	jnz	1b
	ret

# (n): 3n + 1, plus guest_count_step and guest_restorer n times. INT3 is a trap,
# so it retires.
	.globl	guest_int3
guest_int3:
	int3
	dec	rdi
	jnz	guest_int3
	ret

# (n): 2n + 7, plus guest_count_step and guest_restorer 2n + 3 times: once after
# each instruction from the first DEC to the second POPFQ.
	.globl	guest_single_step
guest_single_step:
	pushfq
	or	qword ptr [rsp], 0x100
	popfq
1:	dec	rdi
	jnz	1b
	pushfq
	and	qword ptr [rsp], -0x101
	popfq
	ret

# Signal handler that skips a two-byte instruction: 2
	.globl	guest_skip2
guest_skip2:
	add	qword ptr [rdx + 168], 2	# ucontext: gregs[REG_RIP]
	ret

# Signal handler that counts its calls: 2
	.globl	guest_count_step
guest_count_step:
	inc	qword ptr guest_steps[rip]
	ret

# Signal handler that records the siginfo and the RIP of a SIGTRAP of perf: 14
	.globl	guest_record_trap
guest_record_trap:
	mov	rax, guest_steps[rip]
	inc	qword ptr guest_steps[rip]
	shl	rax, 5
	lea	rcx, guest_traps[rip]
	add	rcx, rax
	movsxd	rax, dword ptr [rsi + 8]	# siginfo: si_code
	mov	[rcx], rax
	mov	rax, [rsi + 24]			# si_perf_data
	mov	[rcx + 8], rax
	mov	rax, [rsi + 32]			# si_perf_type, si_perf_flags
	mov	[rcx + 16], rax
	mov	rax, [rdx + 168]		# ucontext: gregs[REG_RIP]
	mov	[rcx + 24], rax
	ret

# The return address of the signal handlers (SA_RESTORER): 2
	.globl	guest_restorer
guest_restorer:
	mov	eax, 15			# rt_sigreturn
	syscall

# (n): 4n + 3
	.globl	guest_cpuid
guest_cpuid:
	mov	r8, rbx
1:	xor	eax, eax
	cpuid
	dec	rdi
	jnz	1b
	mov	rbx, r8
	ret

# (n): 3n + 1
	.globl	guest_rdtsc
guest_rdtsc:
	rdtsc
	dec	rdi
	jnz	guest_rdtsc
	ret

# (n): 3n + 1
	.globl	guest_pause
guest_pause:
	pause
	dec	rdi
	jnz	guest_pause
	ret

# (n): 6n + 1
	.globl	guest_fpu
guest_fpu:
	fld1
	fstp	st(0)
	movaps	xmm0, xmm1
	addpd	xmm0, xmm1
	dec	rdi
	jnz	guest_fpu
	ret

# (p, n): 3n + 1; *p crosses a cache line
	.globl	guest_split_lock
guest_split_lock:
	lock add qword ptr [rdi], 1
	dec	rsi
	jnz	guest_split_lock
	ret

# (p, n): 3n + 3
	.globl	guest_cmpxchg16b
guest_cmpxchg16b:
	mov	r8, rbx
1:	lock cmpxchg16b [rdi]
	dec	rsi
	jnz	1b
	mov	rbx, r8
	ret

# (n): 4n + 1. Runs from a writable copy. Each round changes the MOV after the
# INC.
	.globl	guest_self_modifying
guest_self_modifying:
	inc	dword ptr [rip + 1]
	mov	eax, 0
	dec	rdi
	jnz	guest_self_modifying
	ret
	.globl	guest_self_modifying_end
guest_self_modifying_end:

	.bss
	.balign	8
	.globl	guest_steps
guest_steps:
	.skip	8
	.globl	guest_traps
guest_traps:
	.skip	64 * 32
	.text

# u64 guest_rdpmc_delta(u32 index, void (*f)(u64, u64), u64 a, u64 b)
#
# Calls f(a, b) between two RDPMCs of counter index and returns the difference.
# It includes 6 instructions besides f: the first RDPMC is one of them, the
# second is not.
	.globl	guest_rdpmc_delta
guest_rdpmc_delta:
	push	rbx
	push	r12
	push	r13
	mov	r12, rsi
	mov	r13, rdi
	mov	rdi, rdx
	mov	rsi, rcx
	mov	ecx, r13d
	rdpmc
	shl	rdx, 32
	or	rdx, rax
	mov	rbx, rdx
	call	r12
	mov	ecx, r13d
	rdpmc
	shl	rdx, 32
	or	rax, rdx
	sub	rax, rbx
	pop	r13
	pop	r12
	pop	rbx
	ret
