// SPDX-License-Identifier: GPL-2.0
/* Something to count: the prime numbers below 20,000. */
#include <stdio.h>

int main(void)
{
	int primes = 0;

	for (int i = 2; i < 20000; i++) {
		int j = 2;

		while (j * j <= i && i % j)
			j++;
		primes += j * j > i;
	}
	printf("%d\n", primes);
	return primes != 2262;
}
