/* check.h - cmocka and the standard headers that cmocka.h requires; every unit test includes this file. */
#ifndef BB_TESTS_CHECK_H
#define BB_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Number of rows of a table. */
#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* 1 in a build with AddressSanitizer or for another processor, which qemu emulates, else 0. Such a build checks memory
 * accesses or the processor's arithmetic, so a few inputs of an exhaustive comparison are enough in it; the release
 * build runs all inputs. */
#ifdef BB_FEW_INPUTS
enum { FEW_INPUTS = 1 };
#else
enum { FEW_INPUTS = 0 };
#endif

#endif
