/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Instructions that are easily miscounted: with page faults, REP strings,
 * system calls, calls and returns. The comments give the number of
 * instructions, src/program.rs has the sum.
 */
	.intel_syntax noprefix
	.bss
	.balign	4096
pages:	.skip	512 * 4096

	.text
	.globl	_start
_start:
	lea	rdi, pages[rip]		# 2
	mov	ecx, 256
touch:					# 256 * 4, with a page fault each
	mov	byte ptr [rdi], 1
	add	rdi, 4096
	dec	ecx
	jnz	touch

	lea	rsi, pages[rip]		# 3 + 1, with page faults inside the REP
	lea	rdi, pages[rip + 256 * 4096]
	mov	ecx, 256 * 4096
	rep movsb

	mov	ebx, 1000		# 1
calls:					# 1000 * 6
	mov	eax, 39			# getpid
	syscall
	call	leaf
	dec	ebx
	jnz	calls

	xor	edi, edi		# 3
	mov	eax, 60			# exit
	syscall

leaf:	ret
