// One request at a time: a bare echo, the client, a pool. Prints a line of JSON; see tests/measure-clients.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	"leafd.invalid/leafd"
)

func setting(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func rate(call func(), calls int) float64 {
	began := time.Now()
	for i := 0; i < calls; i++ {
		call()
	}
	return float64(calls) / time.Since(began).Seconds()
}

func main() {
	bare, err := net.Dial("unix", os.Getenv("ECHO"))
	check(err)
	request, answer := make([]byte, setting("SIZE")), make([]byte, setting("ANSWER"))
	echo := func() {
		_, err := bare.Write(request)
		check(err)
		_, err = io.ReadFull(bare, answer)
		check(err)
	}
	client, err := leafd.New()
	check(err)
	ctx := context.Background()
	next := func() {
		_, err := client.Next(ctx, "speed")
		check(err)
	}
	pool, err := client.NewPool("pooled")
	check(err)
	fromPool := func() {
		_, err := pool.Next(ctx)
		check(err)
	}
	calls, pooled := setting("CALLS"), setting("POOLED")
	rate(echo, calls/4)
	rate(next, calls/4)
	rate(fromPool, pooled/4)
	rates := map[string][]float64{}
	for round := 0; round < setting("ROUNDS"); round++ {
		rates["echo"] = append(rates["echo"], rate(echo, calls))
		rates["client"] = append(rates["client"], rate(next, calls))
	}
	for round := 0; round < 3; round++ {
		rates["pool"] = append(rates["pool"], rate(fromPool, pooled))
	}
	check(json.NewEncoder(os.Stdout).Encode(rates))
}
