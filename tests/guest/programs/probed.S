/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls `probed` 1000 times. With an argument it calls it 500 times, forks, and
 * both processes call it 500 times.
 */
	.intel_syntax noprefix
	.globl	_start
_start:
	cmp	qword ptr [rsp], 1	# argc
	jne	forking
	mov	ebx, 1000
1:	mov	edi, ebx
	call	probed
	dec	ebx
	jnz	1b
	jmp	done

forking:
	mov	ebx, 500
2:	mov	edi, ebx
	call	probed
	dec	ebx
	jnz	2b
	mov	eax, 57			# fork
	syscall
	mov	r12d, eax
	mov	ebx, 500
3:	mov	edi, ebx
	call	probed
	dec	ebx
	jnz	3b
	test	r12d, r12d
	jz	done
	mov	eax, 61			# wait4(-1, NULL, 0, NULL)
	mov	edi, -1
	xor	esi, esi
	xor	edx, edx
	xor	r10d, r10d
	syscall
done:	xor	edi, edi
	mov	eax, 60			# exit
	syscall

	.ascii	"probed: "		# the tests find the function by this
probed:	nop
	lea	rax, [rdi + 1]
	ret
