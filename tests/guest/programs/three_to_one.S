/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Executes 10,000 rounds of 3 * 2002 instructions in one function, 2002 in
 * another and 4 around them.
 */
	.intel_syntax noprefix
	.globl	_start
	.type	_start, @function
_start:
	mov	ebx, 10000
1:	call	three
	call	one
	dec	ebx
	jnz	1b
	xor	edi, edi
	mov	eax, 60			# exit
	syscall
	.size	_start, . - _start

	.type	three, @function
three:
	mov	ecx, 3002
1:	dec	ecx
	jnz	1b
	ret
	.size	three, . - three

	.type	one, @function
one:
	mov	ecx, 1000
1:	dec	ecx
	jnz	1b
	ret
	.size	one, . - one
