/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Without an argument: stops itself with SIGSTOP. After SIGCONT it executes
 * 2 * 1,000,000 + 9 instructions, of which the last is an execve() of itself
 * with an argument.
 *
 * With an argument: executes 2 + 2 * 1,000,000 + 4 instructions.
 */
	.intel_syntax noprefix
	.globl	_start
_start:
	cmp	qword ptr [rsp], 1	# argc
	jne	second

	mov	eax, 39			# getpid
	syscall
	mov	edi, eax
	mov	esi, 19			# SIGSTOP
	mov	eax, 62			# kill
	syscall

	mov	ecx, 1000000		# the first instruction after SIGCONT
1:	dec	ecx
	jnz	1b
	mov	rdi, [rsp + 8]		# argv[0], the path
	push	0			# the new argv: the path twice
	push	rdi
	push	rdi
	mov	rsi, rsp
	xor	edx, edx
	mov	eax, 59			# execve
	syscall

second:	mov	ecx, 1000000
2:	dec	ecx
	jnz	2b
	xor	edi, edi
	mov	eax, 60			# exit
	syscall
