/* SPDX-License-Identifier: GPL-2.0 */
/* A tight loop: 2 * 10,000,000 + 4 instructions. */
	.intel_syntax noprefix
	.globl	_start
_start:
	mov	ecx, 10000000
1:	dec	ecx
	jnz	1b
	xor	edi, edi
	mov	eax, 60			# exit
	syscall
