// Command check guards against regressions of speed: it runs the microbenchmarks of the hot path and short P1,
// P3 and F1, of this tree and of a base commit in turn, and fails where this tree is worse by more than 15 %
// and by more than chance. What the host is too noisy for is said, and fails nothing.
//
//	go run ./bench/check [-base COMMIT] [-rounds 5] [-skip PATTERN] [-micro=false] [-broker=false] PACKAGE...
//
// PACKAGE are those with microbenchmarks, as directories from the root of the module. The base lies in a
// temporary directory while it is built.
package main
