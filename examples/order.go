// order.go: an order that is not paid within two seconds is closed. As a service of yours would say it: 30m. go run order.go
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
)

type task struct {
	ID, Token, Key      string
	Attempt, Deliveries int
}

// call decodes what the broker answers, and ends the program if it refuses.
func call(method, path, body string, answer any) {
	broker := os.Getenv("TARRY_HTTP")
	if broker == "" {
		broker = "http://127.0.0.1:7272"
	}
	request, err := http.NewRequest(method, broker+"/v1"+path, strings.NewReader(body))
	must(err)
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("TARRY_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	must(err)
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		log.Fatal(method, " ", path, ": ", response.Status)
	}
	must(json.NewDecoder(response.Body).Decode(answer))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	for _, order := range []string{"order-1", "order-2"} { // two orders are placed
		call("POST", "/queues/close-order/tasks", fmt.Sprintf(`{"key": %q, "in": "2s", "json": {"order": %q}}`, order, order), &task{})
	}
	var paid task // in time. With 0 deliveries no consumer has seen the task, and none ever will
	call("DELETE", "/queues/close-order/tasks/order-1", "", &paid)
	fmt.Printf("order-1 paid, %d seen\n", paid.Deliveries)
	// The second is not. What is leased is ours for 30 s (the queue's policy); if we die, somebody else gets it.
	var leased struct{ Tasks []task }
	call("POST", "/queues/close-order/lease", `{"max": 1, "wait": "20s"}`, &leased)
	for _, t := range leased.Tasks {
		fmt.Printf("%s closed, attempt %d\n", t.Key, t.Attempt)
		call("POST", "/ack", fmt.Sprintf(`{"id": %q, "token": %q}`, t.ID, t.Token), &t)
	}
}
