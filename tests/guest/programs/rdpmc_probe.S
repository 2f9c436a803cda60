/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads general counters 0 and 1 with RDPMC. Exits with 0 if RDPMC faults, with
 * 1 if a counter is not 0, and with 2 if both are 0.
 */
	.intel_syntax noprefix
	.data
	.balign	8
action:					# the kernel's struct sigaction
	.quad	fault			# handler
	.quad	0x04000000		# SA_RESTORER
	.quad	fault			# restorer, not used: the handler exits
	.quad	0			# mask

	.text
	.globl	_start
_start:
	mov	edi, 11			# SIGSEGV
	lea	rsi, action[rip]
	xor	edx, edx
	mov	r10d, 8
	mov	eax, 13			# rt_sigaction
	syscall

	xor	ebx, ebx
1:	mov	ecx, ebx
	rdpmc				# #GP where CR4.PCE is clear
	or	eax, edx
	jnz	leak
	inc	ebx
	cmp	ebx, 2
	jb	1b
	mov	edi, 2
	jmp	exit

fault:	xor	edi, edi
	jmp	exit
leak:	mov	edi, 1
exit:	mov	eax, 60
	syscall
