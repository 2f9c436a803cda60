/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stops itself with SIGSTOP, so that a profiler can attach to it at a known
 * instruction. After SIGCONT it executes 2 * 5,000,000 + 4 instructions.
 */
	.intel_syntax noprefix
	.globl	_start
_start:
	mov	eax, 39			# getpid
	syscall
	mov	edi, eax
	mov	esi, 19			# SIGSTOP
	mov	eax, 62			# kill
	syscall
	mov	ecx, 5000000
1:	dec	ecx
	jnz	1b
	xor	edi, edi
	mov	eax, 60			# exit
	syscall
