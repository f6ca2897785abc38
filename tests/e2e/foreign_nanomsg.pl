#!/usr/bin/env perl
# foreign_nanomsg.pl: a client of tarryd in another language, with a library of another project: Perl's NanoMsg::Raw over nanomsg 1.1, with the REQ
# and PULL sockets of nng's predecessor. Run by foreign_library_test.py.
#
#     foreign_nanomsg.pl URL QUEUE KEY PAYLOAD_SIZE     schedules a task, has it delivered on a lane, acks it
#
# nanomsg supports only ws://, and cannot send additional HTTP headers. So the lane's secret is part of the lane's path, and TLS needs a tunnel
# (socat). Prints a line for each step that succeeded, like foreign.c.
use strict;
use warnings;
use NanoMsg::Raw;

$| = 1;
my $patience_ms = 20_000;
my ($url, $queue, $key, $size) = @ARGV;

# Packs protobuf fields: pairs of a field's number and an int, or a reference to bytes.
sub number { my ($value, $out) = (shift, ''); while ($value > 127) { $out .= chr($value & 127 | 128); $value >>= 7 } return $out . chr $value }

sub packed {
    my $out = '';
    while (my ($field, $value) = splice @_, 0, 2) {
        $out .= number($field << 3 | (ref $value ? 2 : 0)) . number(ref $value ? length $$value : $value) . (ref $value ? $$value : '');
    }
    return $out;
}

# Returns the last value of each field.
sub unpacked {
    my ($data, $at, %fields) = (shift, 0);
    my $take = sub { my ($value, $shift) = (0, 0); while (1) { my $byte = ord substr $data, $at++, 1; $value |= ($byte & 127) << $shift; return $value if $byte < 128; $shift += 7 } };
    while ($at < length $data) {
        my $tag = $take->();
        my $kind = $tag & 7;
        my $value = $kind == 0 || $kind == 2 ? $take->() : $kind == 1 ? 8 : 4;
        if ($kind != 0) { ($value, $at) = (substr($data, $at, $value), $at + $value) }
        $fields{$tag >> 3} = $value;
    }
    return \%fields;
}

sub dial {
    my ($kind, $path) = @_;
    my $socket = nn_socket(AF_SP, $kind);
    defined $socket or die 'socket: ' . nn_strerror(nn_errno) . "\n";
    nn_setsockopt($socket, NN_SOL_SOCKET, NN_RCVTIMEO, $patience_ms);
    nn_setsockopt($socket, NN_SOL_SOCKET, NN_SNDTIMEO, $patience_ms);
    nn_setsockopt($socket, NN_SOL_SOCKET, NN_RCVMAXSIZE, 64 << 20);
    defined nn_connect($socket, $url . $path) or die "$url: " . nn_strerror(nn_errno) . "\n";
    return $socket;
}

sub receive {
    my ($socket, $what) = @_;
    defined nn_recv($socket, my $message, NN_MSG, 0) or die "$what: " . nn_strerror(nn_errno) . "\n";
    return "$message";
}

my $rpc = dial(NN_REQ, '/rpc');

# Sends a request; returns the reply's body.
sub ask {
    my ($body, @fields) = @_;
    defined nn_send($rpc, packed(1, 1, 2, \'foreign.pl', $body, \packed(@fields)), 0) or die 'send: ' . nn_strerror(nn_errno) . "\n";
    my $reply = unpacked(receive($rpc, 'answer'));
    die "refused: $reply->{1} $reply->{2}\n" if $reply->{1};
    return unpacked($reply->{$body} // '');
}

my $producer = ask(10)->{1};
print "greeted\n";
my $sequence = 0;

sub commit {
    $sequence++;
    my $reply = ask(11, 1, $producer, 2, $sequence, 3, $sequence, 5, \shift);
    die "commit $sequence\n" if unpacked($reply->{1})->{1};
}

my $session = ask(13, 1, \$queue);
my $lane = dial(NN_PULL, '/lane/' . ($session->{2} // 0) . '/' . unpack('H*', $session->{3}));
my $content = packed(2, \('x' x $size));
commit(packed(1, \packed(1, \$queue, 2, \$key, 3, \packed(2, 50), 4, \$content)));
print "scheduled\n";
my $task = unpacked(unpacked(receive($lane, 'delivery'))->{3});
print "delivered $task->{2} $task->{3} ", length $task->{10}, "\n";
commit(packed(4, \packed(1, $task->{1}, 2, \$task->{7})));
print "acked\n";
