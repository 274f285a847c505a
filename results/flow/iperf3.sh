# throng flow and iperf3 in turns over a veth pair; needs root, iperf3 and throng on the PATH
set -e
ip netns add near; ip netns add far
ip link add veth-near netns near type veth peer name veth-far netns far
ip -n near addr add 10.99.0.1/24 dev veth-near; ip -n near link set veth-near up
ip -n far addr add 10.99.0.2/24 dev veth-far; ip -n far link set veth-far up
export THRONG_TOKEN=t
ip netns exec far throng ping serve --address 10.99.0.2 --port 9500 >/dev/null & a=$!
ip netns exec far iperf3 -s -B 10.99.0.2 >/dev/null & b=$!
sleep 1
record() { # WHAT ROUND: throng's or iperf3's JSON from standard input, in one line
  python3 -c '
import json, sys
what, round, who = sys.argv[1:4]
d = json.load(sys.stdin)
if who == "throng":
    f = d["flow"]; g = f["datagrams"] or {}
    row = {"goodput_mbit": f["goodput_bits"] / 1e6, "retransmits": f["retransmits"], "lost": g.get("lost"), "sent": g.get("sent")}
else:
    e = d["end"]; s = e.get("sum_received") or e["sum"]; u = e.get("sum", {})
    row = {"goodput_mbit": s["bits_per_second"] / 1e6, "retransmits": e.get("sum_sent", {}).get("retransmits"), "lost": u.get("lost_packets"), "sent": u.get("packets")}
print(json.dumps({"what": what, "round": int(round), "who": who, **row}))' "$1" "$2" "$3"
}
throng_run() { what=$1; round=$2; shift 2; ip netns exec near throng flow 10.99.0.2:9500 -W 1 -t 4 --json run.json "$@" >/dev/null 2>&1 || true; record "$what" $round throng < run.json; }
iperf_run() { what=$1; round=$2; shift 2; ip netns exec near iperf3 -c 10.99.0.2 -O 1 -t 4 -J "$@" > run.json 2>/dev/null; record "$what" $round iperf3 < run.json; }
pair() { # WHAT THRONG'S -- IPERF3'S
  what=$1; th=$2; ip=$3
  for round in 1 2 3 4 5; do
    if [ $((round % 2)) = 1 ]; then throng_run "$what" $round $th; iperf_run "$what" $round $ip
    else iperf_run "$what" $round $ip; throng_run "$what" $round $th; fi
  done
}
pair "UDP, 1,200 bytes, 100 Mbit/s" "-u -l 1200 --rate 100Mb" "-u -l 1200 -b 100M"
pair "TCP, as fast as it goes" "-l 128k" "-l 128k"
ip netns exec near tc qdisc add dev veth-near root tbf rate 500mbit burst 64kb latency 20ms
pair "TCP behind a limit of 500 Mbit/s" "-l 128k" "-l 128k"
pair "TCP, 4 connections, the same limit" "-m 4,* -l 128k" "-P 4 -l 128k"
pair "UDP, 1,200 bytes, 600 Mbit/s into the limit" "-u -l 1200 --rate 600Mb" "-u -l 1200 -b 600M"
kill $a $b; ip netns del near; ip netns del far
