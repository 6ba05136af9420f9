/* check.h - cmocka and the headers that it wants before it: what every unit test includes. */
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

/* Rows of a table. */
#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

#endif
