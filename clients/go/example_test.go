package leafd_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leafd.invalid/leafd"
)

func Example() {
	client, err := leafd.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ids, err := client.NextMany(context.Background(), "orders", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range ids.Slice() {
		fmt.Println("order", id-ids.First())
	}
	// Output:
	// order 0
	// order 1
	// order 2
}

func ExampleClient_Next_errors() {
	client, err := leafd.New(leafd.WithSocket("/nowhere/leafd.sock"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Next(ctx, "orders")
	var refusal *leafd.RefusedError
	switch {
	case err == nil:
	case errors.Is(err, leafd.CodeUnknownTag):
		fmt.Println("create the tag")
	case errors.As(err, &refusal):
		fmt.Println(refusal.Name(), refusal.RetryAfter)
	case leafd.IsTemporary(err):
		fmt.Println("try again later")
	default:
		fmt.Println(err)
	}
	// Output: try again later
}

func ExampleClient_NewPool() {
	client, err := leafd.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lines, err := client.NewPool("order-lines")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lines.Close()
	first, err := lines.Next(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	second, _ := lines.TryNext()
	fmt.Println(second > first)
	// Output: true
}

func ExampleLayout_Decode() {
	decoded, err := leafd.LayoutLeaf.Decode(1305120710458347597)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decoded.Time().UTC(), decoded.Worker, decoded.Sequence)
	// Output: 2020-09-13 12:26:40 +0000 UTC 513 77
}
