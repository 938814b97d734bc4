# Probes that configure.ac uses. Each asks the compiler and linker themselves; none knows a compiler by name.

# LH_COMPILES(FLAG, [IF-YES], [IF-NO]): whether the compiler takes the flag without a word. -Werror makes clang refuse what it does not know.
AC_DEFUN([LH_COMPILES], [
	AC_MSG_CHECKING([whether $CC accepts $1])
	lh_saved_cflags=$CFLAGS
	CFLAGS="$CFLAGS -Werror $1"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [lh_result=yes], [lh_result=no])
	CFLAGS=$lh_saved_cflags
	AC_MSG_RESULT([$lh_result])
	AS_IF([test "x$lh_result" = xyes], [m4_default([$2], [:])], [m4_default([$3], [:])])
])

# LH_LINKS(FLAGS, [IF-YES], [IF-NO]): whether a program builds with the flags given to compiler and linker alike.
AC_DEFUN([LH_LINKS], [
	AC_MSG_CHECKING([whether programs link with $1])
	lh_saved_cflags=$CFLAGS
	lh_saved_ldflags=$LDFLAGS
	CFLAGS="$CFLAGS -Werror $1"
	LDFLAGS="$LDFLAGS $1"
	AC_LINK_IFELSE([AC_LANG_PROGRAM()], [lh_result=yes], [lh_result=no])
	CFLAGS=$lh_saved_cflags
	LDFLAGS=$lh_saved_ldflags
	AC_MSG_RESULT([$lh_result])
	AS_IF([test "x$lh_result" = xyes], [m4_default([$2], [:])], [m4_default([$3], [:])])
])

# LH_FLAGS(VARIABLE, FLAGS): puts those of FLAGS that the compiler takes into VARIABLE, which is substituted.
AC_DEFUN([LH_FLAGS], [
	$1=
	for lh_flag in $2; do
		LH_COMPILES([$lh_flag], [$1="$$1 $lh_flag"])
	done
	AC_SUBST([$1])
])

# LH_OPTIMISED(VARIABLE): yes when CFLAGS and CPPFLAGS, as they are now, ask for optimisation.
AC_DEFUN([LH_OPTIMISED], [
	AC_MSG_CHECKING([whether the compiler optimises])
	AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifndef __OPTIMIZE__
#error not optimised
#endif
int optimised;
]])], [$1=yes], [$1=no])
	AC_MSG_RESULT([$$1])
])

# LH_FORTIFY(VARIABLE): adds the highest level of _FORTIFY_SOURCE that the C library and the compiler take without a warning.
AC_DEFUN([LH_FORTIFY], [
	AC_MSG_CHECKING([for the level of fortified functions])
	lh_level=none
	lh_saved_cflags=$CFLAGS
	for lh_try in 3 2; do
		CFLAGS="$lh_saved_cflags -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$lh_try"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>]])], [lh_level=$lh_try; break])
	done
	CFLAGS=$lh_saved_cflags
	AC_MSG_RESULT([$lh_level])
	AS_IF([test "x$lh_level" != xnone], [$1="$$1 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$lh_level"])
])

# LH_SEARCH_PTHREAD: what threads need, in PTHREAD_CFLAGS and PTHREAD_LIBS. -pthread does on every system with a C11 compiler and POSIX threads.
AC_DEFUN([LH_SEARCH_PTHREAD], [
	LH_LINKS([-pthread], [PTHREAD_CFLAGS=-pthread PTHREAD_LIBS=-pthread], [AC_MSG_ERROR([$CC does not link programs with threads (-pthread)])])
	AC_SUBST([PTHREAD_CFLAGS])
	AC_SUBST([PTHREAD_LIBS])
])
