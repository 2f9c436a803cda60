/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code in another order than it mostly runs in. The comments give how often each branch is taken in
 * eight rounds, src/tests/branch_tools.rs has the sums.
 */
	.intel_syntax noprefix
	.set	ROUNDS, 8 * 40

	.globl	_start
	.type	_start, @function
_start:
	mov	ecx, ROUNDS
	xor	ebx, ebx
round:	call	work			# 8
	dec	ecx
	jnz	round			# 8, one less at the end
	xor	edi, edi
	cmp	ebx, 22 * ROUNDS / 8	# the sum of what the rounds have added
	setne	dil
	mov	eax, 60			# exit
	syscall
	.size	_start, . - _start

	.globl	work
	.type	work, @function
work:	test	ecx, 7
	jnz	often			# 7
	add	ebx, 1
	ret				# 1
last:	add	ebx, 3
	ret				# 7
often:	jmp	last			# 7
	.size	work, . - work
