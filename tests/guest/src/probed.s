# SPDX-License-Identifier: GPL-2.0
# Functions of this program that the tests put probes into.
	.text
	.globl	guest_probed, guest_probed_second, guest_recursive

# Returns the sum of its arguments.
	.balign	16
guest_probed:
	nop
guest_probed_second:
	lea	rax, [rdi + rsi]
	ret

# Calls itself as often as its argument says.
	.balign	16
guest_recursive:
	push	rbx
	mov	ebx, edi
	test	edi, edi
	jz	1f
	dec	edi
	call	guest_recursive
1:	mov	eax, ebx
	pop	rbx
	ret
