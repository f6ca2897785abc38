// foreign_mangos.go: a client of tarryd in another language, with a library of another project: mangos, which is SP written in Go. Uses its REQ and
// PULL sockets over its ws and wss transports. Run by foreign_library_test.py if mangos is installed.
//
//	foreign_mangos URL QUEUE KEY PAYLOAD_SIZE [CA CERTIFICATE KEY]     schedules a task, has it delivered on a lane, acks it
//
// mangos cannot send additional HTTP headers. So the client has a certificate instead of a token, and the lane's secret is part of the lane's path.
// Prints a line for each step that succeeded, like foreign.c.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.nanomsg.org/mangos/v3"
	"go.nanomsg.org/mangos/v3/protocol/pull"
	"go.nanomsg.org/mangos/v3/protocol/req"
	_ "go.nanomsg.org/mangos/v3/transport/ws"
	_ "go.nanomsg.org/mangos/v3/transport/wss"
)

const patience = 20 * time.Second

func must(err error, what string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

// packed packs protobuf fields: pairs of a field's number and an int or bytes.
func packed(fields ...interface{}) []byte {
	var out []byte
	number := func(value int) { out = binary.AppendUvarint(out, uint64(value)) }
	for at := 0; at < len(fields); at += 2 {
		field := fields[at].(int) << 3
		switch value := fields[at+1].(type) {
		case int:
			number(field)
			number(value)
		case string:
			number(field | 2)
			number(len(value))
			out = append(out, value...)
		case []byte:
			number(field | 2)
			number(len(value))
			out = append(out, value...)
		}
	}
	return out
}

type fields struct {
	ints map[int]int
	data map[int][]byte
}

// unpacked returns the last value of each field.
func unpacked(data []byte) fields {
	out := fields{map[int]int{}, map[int][]byte{}}
	take := func() int {
		value, size := binary.Uvarint(data)
		data = data[size:]
		return int(value)
	}
	for len(data) > 0 {
		tag := take()
		size := 8
		switch tag & 7 {
		case 0:
			out.ints[tag>>3] = take()
			continue
		case 2:
			size = take()
		case 5:
			size = 4
		}
		out.data[tag>>3], data = data[:size], data[size:]
	}
	return out
}

func dial(socket mangos.Socket, err error, url string, config *tls.Config) mangos.Socket {
	must(err, "socket")
	must(socket.SetOption(mangos.OptionRecvDeadline, patience), "deadline")
	options := map[string]interface{}{mangos.OptionMaxRecvSize: 64 << 20}
	if config != nil {
		options[mangos.OptionTLSConfig] = config
	}
	must(socket.DialOptions(url, options), url)
	return socket
}

func secure(paths []string) *tls.Config {
	if len(paths) == 0 {
		return nil
	}
	authority, err := os.ReadFile(paths[0])
	must(err, "CA")
	shown, err := tls.LoadX509KeyPair(paths[1], paths[2])
	must(err, "certificate")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{shown}}
}

func main() {
	url, queue, key, config := os.Args[1], os.Args[2], os.Args[3], secure(os.Args[5:])
	size, err := strconv.Atoi(os.Args[4])
	must(err, "size")
	socket, err := req.NewSocket()
	rpc := dial(socket, err, url+"/rpc", config)
	ask := func(body int, inner ...interface{}) fields {
		must(rpc.Send(packed(1, 1, 2, "foreign.go", body, packed(inner...))), "send")
		answer, err := rpc.Recv()
		must(err, "answer")
		reply := unpacked(answer)
		if reply.ints[1] != 0 {
			must(fmt.Errorf("%d %s", reply.ints[1], reply.data[2]), "refused")
		}
		return unpacked(reply.data[body])
	}
	producer, sequence := ask(10).ints[1], 0
	fmt.Println("greeted")
	commit := func(op []byte) {
		sequence++
		reply := ask(11, 1, producer, 2, sequence, 3, sequence, 5, op)
		if code := unpacked(reply.data[1]).ints[1]; code != 0 {
			must(fmt.Errorf("%d", code), "commit")
		}
	}
	session := ask(13, 1, queue)
	socket, err = pull.NewSocket()
	lane := dial(socket, err, fmt.Sprintf("%s/lane/%d/%x", url, session.ints[2], session.data[3]), config)
	commit(packed(1, packed(1, queue, 2, key, 3, packed(2, 50), 4, packed(2, bytes.Repeat([]byte("x"), size)))))
	fmt.Println("scheduled")
	delivery, err := lane.Recv()
	must(err, "delivery")
	task := unpacked(unpacked(delivery).data[3])
	fmt.Println("delivered", string(task.data[2]), string(task.data[3]), len(task.data[10]))
	commit(packed(4, packed(1, task.ints[1], 2, task.data[7])))
	fmt.Println("acked")
}
