/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Instructions of all kinds that the emulated PMU tells apart: 4096 + 32 * 131072,
 * of which 256 + 7 * 131072 are branches. The comments give the number of
 * instructions, src/program.rs has the sum.
 */
	.intel_syntax noprefix
	.bss
	.balign	8
value:	.skip	8

	.text
	.globl	_start
_start:
	mov	ecx, 131072			# 1
round:						# 131072 * 32
	mov	eax, dword ptr value[rip]	# 3 loads and stores
	mov	dword ptr value[rip], eax
	add	dword ptr value[rip], eax
	call	leaf				# 2, with a store and a load
	xor	eax, eax
	jnz	1f				# never taken
	jz	1f				# always taken
1:	test	ecx, 1
	jz	2f				# taken in every other round
2:	jmp	3f
3:	mov	eax, dword ptr value[rip]
	mov	eax, dword ptr value[rip]
	.rept	16
	nop
	.endr
	cmp	eax, 1
	dec	ecx
	jnz	round

	.rept	255				# 255
	jmp	4f
4:
	.endr
	.rept	4096 - 255 - 4
	nop
	.endr
	xor	edi, edi			# 3
	mov	eax, 60				# exit
	syscall

leaf:	ret
