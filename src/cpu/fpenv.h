/* SPDX-License-Identifier: MIT */
/*
 * The floating-point environment for the time of a call: round to nearest, no
 * traps, no flush-to-zero, no denormals-are-zero. The caller's control word is
 * restored; its sticky exception flags are left as they were.
 */
#ifndef OH_CPU_FPENV_H
#define OH_CPU_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)

/* Intel SDM vol. 1, 10.2.3: all exceptions masked, all else clear. */
#define OH__MXCSR_DEFAULT 0x1f80u
/* The six sticky exception flags. */
#define OH__MXCSR_FLAGS 0x3fu

static inline uint64_t oh__fpenv_enter(void)
{
	uint32_t saved = __builtin_ia32_stmxcsr();

	if ((saved & ~OH__MXCSR_FLAGS) != OH__MXCSR_DEFAULT)
		__builtin_ia32_ldmxcsr(OH__MXCSR_DEFAULT);
	return saved;
}

static inline void oh__fpenv_leave(uint64_t saved)
{
	if (__builtin_ia32_stmxcsr() != (uint32_t)saved)
		__builtin_ia32_ldmxcsr((uint32_t)saved);
}

#elif defined(__aarch64__)

/* FPCR and FPSR are read and written whole; zero is the default state. */
static inline uint64_t oh__fpenv_enter(void)
{
	uint64_t saved, zero = 0;

	__asm__ volatile("mrs %0, fpcr" : "=r"(saved));
	if (saved)
		__asm__ volatile("msr fpcr, %0" : : "r"(zero));
	return saved;
}

static inline void oh__fpenv_leave(uint64_t saved)
{
	if (saved)
		__asm__ volatile("msr fpcr, %0" : : "r"(saved));
}

#else
#error "the CPU engine knows x86-64 and aarch64 only"
#endif

#endif
