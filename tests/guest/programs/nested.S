/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A loop in four calls: 2 * 2,000,000 + 12 instructions. src/program.rs has the offsets of the calls and
 * of the loop.
 */
	.intel_syntax noprefix
	.macro	function name
	.globl	\name
	.type	\name, @function
\name:
	.endm

	function _start
	call	first			# 0
	xor	edi, edi
	mov	eax, 60			# exit
	syscall
	.size	_start, . - _start

	function first
	call	second			# 0xe
	ret
	.size	first, . - first

	function second
	call	third			# 0x14
	ret
	.size	second, . - second

	function third
	call	innermost		# 0x1a
	ret
	.size	third, . - third

	function innermost
	mov	ecx, 2000000		# 0x20
1:	dec	ecx			# 0x25
	jnz	1b			# 0x27
	ret
	.size	innermost, . - innermost
