/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forks five children and waits for them. The parent executes 1 + 5 * 6 + 1 +
 * 5 * 8 + 1 + 3 instructions, each child 2 + 1 + 2 * 2,000,000 + 3.
 */
	.intel_syntax noprefix
	.globl	_start
_start:
	mov	ebx, 5
1:	mov	eax, 57			# fork
	syscall
	test	eax, eax
	jz	child
	dec	ebx
	jnz	1b

	mov	ebx, 5
2:	mov	eax, 61			# wait4(-1, NULL, 0, NULL)
	mov	edi, -1
	xor	esi, esi
	xor	edx, edx
	xor	r10d, r10d
	syscall
	dec	ebx
	jnz	2b
	jmp	done

child:	mov	ecx, 2000000
3:	dec	ecx
	jnz	3b
done:	xor	edi, edi
	mov	eax, 60			# exit
	syscall
