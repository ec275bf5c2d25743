package form_test

import (
	"fmt"
	"time"

	"leafd.invalid/leafd"
	"leafd.invalid/leafd/form"
)

func Example() {
	text, err := form.Encode("ord_crockford32", 17)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	id, err := form.Decode("ord_crockford32", text)
	fmt.Println(id, err)
	// Output:
	// ord_000000000000HH
	// 17 <nil>
}

func ExampleDay() {
	day, err := form.DayOf(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), "UTC")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(day.Tag("invoices")) // ask leafd for an ID of this tag
	fmt.Println(day.Text(17))
	// Output:
	// invoices-20261122
	// 20261122-000017 <nil>
}

func ExampleSnowflakes() {
	fleet, err := form.ParseFleet("4be1f0a37c")
	if err != nil {
		fmt.Println(err)
		return
	}
	snowflakes := form.NewSnowflakes(leafd.LayoutLeaf, fleet)
	text, err := snowflakes.Encode("uuid7", 2124029785372885063)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	fmt.Println(snowflakes.Decode("uuid7", text))
	// Output:
	// 01a1fcd4-5c07-7000-8000-474be1f0a37c
	// 2124029785372885063 <nil>
}
