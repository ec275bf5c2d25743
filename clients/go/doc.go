// Package leafd is the Go client of leafd, the daemon that issues unique 64-bit IDs to the processes on its host over a
// Unix domain socket. There are two kinds of ID: segment IDs, which are dense and rise per business tag, and snowflake
// IDs, which contain the time, the worker that issued them and a sequence number.
//
//	client, err := leafd.New()
//	if err != nil { … }
//	defer client.Close()
//	id, err := client.Next(ctx, "orders")
//
// A [Client] is safe for any number of goroutines, which share its connection. It reconnects by itself and repeats
// calls that got no answer. A restart of the daemon therefore fails no call. It may skip IDs, but no ID is issued twice.
//
// A [Pool] leases ranges of IDs ahead of need, so that a call costs an addition instead of a system call.
//
// # IDs are int64
//
// An ID is between 0 and 2^63 − 1, which the client checks. It therefore fits int64, the integer type of database/sql,
// of BIGINT columns and of most generated code; no conversion can make it negative. Do not convert one to float64, and
// write it to JSON as a string if a program may read it whose numbers are doubles.
//
// # Forks
//
// A Go program cannot fork and go on; os/exec starts a new program, which does not inherit the connection.
package leafd
