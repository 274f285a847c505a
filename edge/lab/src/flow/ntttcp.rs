//! The result in the forms that NTttcp for Linux writes, for programs that read those.
//!
//! In: a result. Out: XML or JSON of one end, the receiver's, whose throughput is the headline. What
//! NTttcp measures and this program does not is 0, as NTttcp itself writes it; what this program
//! measures by connection (retransmissions, round trips) stands where NTttcp has the host's. Names, the
//! order of XML, and that values of JSON are texts, are NTttcp's. Source: microsoft/ntttcp-for-linux, src/util.c,
//! `write_result_into_log_file` and `write_result_into_json_file` (commit 673d37e).

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::load::{FlowEnd, FlowMachine, FlowSummary, Summary};
use crate::measure::number::float;
use crate::measure::text::escape;

/// The version that readers of this form look for.
const VERSION: &str = "5.33-linux";
/// Where NTttcp listens; readers only show it.
const PORT: u16 = 5001;

/// Parameters as NTttcp's XML and JSON call them, in their order.
fn parameters(summary: &Summary, flow: &FlowSummary) -> Vec<(&'static str, &'static str, String)> {
    let settings = &summary.settings;
    let yes = |is: bool| if is { "True" } else { "False" }.to_owned();
    let no = || yes(false);
    let nought = || "0".to_owned();
    let host = settings.target.rsplit_once(':');
    let port = host.map_or(PORT.to_string(), |it| it.1.to_owned());
    let is_v6 = host.is_some_and(|it| it.0.contains(':'));
    let whole = |seconds: f64| format!("{seconds:.0}");
    vec![
        ("send_socket_buff", "sendSocketBuff", flow.bytes.to_string()),
        ("recv_socket_buff", "recvSocketBuff", flow.bytes.to_string()),
        ("port", "port", port.clone()),
        ("sync_port", "syncPort", port),
        ("no_sync", "noSync", no()),
        ("wait_timeout_milliseconds", "waitTimeoutMilliseconds", nought()),
        ("async", "async", no()),
        ("verbose", "verbose", no()),
        ("wsa", "wsa", no()),
        ("use_ipv6", "useIpv6", yes(is_v6)),
        ("udp", "udp", yes(flow.protocol == "udp")),
        ("verify_data", "verifyData", no()),
        ("wait_all", "waitAll", no()),
        ("run_time", "runTime", whole(settings.planned_s)),
        ("warmup_time", "warmupTime", whole(settings.warm_up_s)),
        ("cooldown_time", "cooldownTime", whole(flow.cool_down_s)),
        ("dash_n_timeout", "dashNTimeout", nought()),
        ("bind_sender", "bindSender", no()),
        ("sender_name", "senderName", "NA".to_owned()),
        ("max_active_threads", "maxActiveThreads", nought()),
        ("tp", "tp", no()),
        ("no_stdio_buffer", "noStdioBuffer", no()),
        ("throughput_Bpms", "throughputBpms", nought()),
        ("cpu_burn", "cpuBurn", nought()),
        ("latency_measurement", "latencyMeasurement", no()),
        ("use_io_compl_ports", "useIOComplPorts", "NA".to_owned()),
        ("cpu_from_idle_flag", "cpuFromIdleFlag", no()),
        ("get_estats", "getEstats", no()),
        ("qos_flag", "qosFlag", no()),
        ("jitter_measurement", "jitterMeasurement", no()),
        ("packet_spacing", "packetSpacing", nought()),
    ]
}

/// What both forms say.
struct Told {
    end: FlowEnd,
    machine: FlowMachine,
    /// Bytes a second.
    bytes_per_s: f64,
    connections: u32,
    retransmits: u64,
    sent: u64,
    received: u64,
    rtt_us: u64,
    errors: u64,
    host: String,
    os: String,
}

const MIB: f64 = 1_048_576.0;

fn told(summary: &Summary, flow: &FlowSummary) -> Told {
    let end = flow.receiver;
    let environment = &summary.environment;
    let count = u64::try_from(flow.connections_tcp.len().max(1)).unwrap_or(1);
    let rtts = flow.connections_tcp.iter().map(|it| it.rtt_ns).fold(0, u64::saturating_add);
    let uname = rustix::system::uname();
    Told {
        machine: end.machine.unwrap_or_default(),
        bytes_per_s: end.bits_per_s / 8.0,
        connections: flow.connections,
        retransmits: flow.retransmits.unwrap_or(0),
        sent: flow.datagrams.map_or(0, |it| it.sent),
        received: flow.datagrams.map_or(0, |it| it.received),
        rtt_us: rtts / count / 1_000,
        errors: summary.errors_count(),
        host: uname.nodename().to_string_lossy().into_owned(),
        os: format!("Linux {} {}", environment.kernel, environment.machine),
        end,
    }
}

impl Told {
    fn mbps(&self) -> f64 {
        8.0 * self.bytes_per_s / 1e6
    }

    fn share(&self, seconds: f64) -> f64 {
        let it = &self.machine;
        let all_s =
            it.user_s + it.system_s + it.idle_s + it.interrupt_s + it.softirq_s + it.steal_s;
        if all_s > 0.0 { 100.0 * seconds / all_s } else { 0.0 }
    }

    fn busy(&self) -> f64 {
        let it = &self.machine;
        self.share(it.user_s + it.system_s + it.interrupt_s + it.softirq_s)
    }

    fn interrupts_per_s(&self) -> f64 {
        float(self.machine.device_interrupts) / self.end.counted_s.max(1e-9)
    }
}

/// As NTttcp's `-x` writes it.
#[must_use]
pub fn ntttcp_xml(summary: &Summary) -> String {
    let none = FlowSummary::default();
    let flow = summary.flow.as_ref().unwrap_or(&none);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_xml(&mut out, summary, flow);
    out
}

fn write_xml(out: &mut String, summary: &Summary, flow: &FlowSummary) -> std::fmt::Result {
    let it = told(summary, flow);
    let host = escape(&it.host);
    writeln!(out, "<ntttcpr computername=\"{host}\" version=\"{VERSION}\">\n\t<parameters>")?;
    for (name, _, value) in parameters(summary, flow) {
        writeln!(out, "\t\t<{name}>{}</{name}>", escape(&value))?;
    }
    writeln!(out, "\t</parameters>\n\t<conns_tested>{}</conns_tested>", it.connections)?;
    let mut row = |name: &str, metric: &str, value: String| {
        let metric =
            if metric.is_empty() { String::new() } else { format!(" metric=\"{metric}\"") };
        writeln!(out, "\t<{name}{metric}>{value}</{name}>")
    };
    let nought = || "0.000".to_owned();
    row("total_bytes", "MB", format!("{:.6}", float(it.end.bytes) / MIB))?;
    row("realtime", "s", format!("{:.6}", it.end.counted_s))?;
    row("avg_bytes_per_compl", "B", nought())?;
    row("threads_avg_bytes_per_compl", "B", nought())?;
    row("avg_frame_size", "B", nought())?;
    row("throughput", "MB/s", format!("{:.3}", it.bytes_per_s / MIB))?;
    row("throughput", "mbps", format!("{:.3}", it.mbps()))?;
    row("throughput", "Bps", format!("{:.3}", it.bytes_per_s))?;
    row("total_buffers", "", nought())?;
    row("throughput", "buffers/s", nought())?;
    row("avg_packets_per_interrupt", "packets/interrupt", nought())?;
    row("interrupts", "count/sec", format!("{:.3}", it.interrupts_per_s()))?;
    row("dpcs", "count/sec", nought())?;
    row("avg_packets_per_dpc", "packets/dpc", nought())?;
    row("packets_sent", "", it.sent.to_string())?;
    row("packets_received", "", it.received.to_string())?;
    row("packets_retransmitted", "", it.retransmits.to_string())?;
    row("errors", "", it.errors.to_string())?;
    row("bufferCount", "", "0".to_owned())?;
    row("bufferLen", "", "0".to_owned())?;
    row("cpu_cores", "cpu cores", it.machine.processors.to_string())?;
    row("cpu_speed", "MHz", nought())?;
    for (name, seconds) in [
        ("user", it.machine.user_s),
        ("system", it.machine.system_s),
        ("idle", it.machine.idle_s),
        ("softirq", it.machine.softirq_s),
    ] {
        row(name, "%", format!("{:.2}", it.share(seconds)))?;
    }
    row("cycles_per_byte", "cycles/byte", "0.00".to_owned())?;
    row("cpu_busy_all", "%", format!("{:.2}", it.busy()))?;
    row("io", "", "0".to_owned())?;
    row("tcp_average_rtt", "us", it.rtt_us.to_string())?;
    row("os", "", escape(&it.os))?;
    writeln!(out, "</ntttcpr>")
}

/// As NTttcp's `-j` writes it.
#[must_use]
pub fn ntttcp_json(summary: &Summary) -> String {
    let none = FlowSummary::default();
    let flow = summary.flow.as_ref().unwrap_or(&none);
    let it = told(summary, flow);
    let parameters: Map<String, Value> = parameters(summary, flow)
        .into_iter()
        .map(|(_, name, value)| (name.to_owned(), value.into()))
        .collect();
    let metric = |metric: &str, value: String| json!({ "metric": metric, "value": value });
    let nought = || "0.000".to_owned();
    let whole = json!({
        "ntttcpr": {
            "computername": it.host,
            "version": VERSION,
            "parameters": parameters,
            "totalBytes": metric("MB", format!("{:.6}", float(it.end.bytes) / MIB)),
            "realTime": metric("s", format!("{:.6}", it.end.counted_s)),
            "avgBytesPerCompl": metric("B", nought()),
            "threadsAvgBytesPerCompl": metric("B", nought()),
            "avgFrameSize": metric("B", nought()),
            "throughputs": [
                metric("MB/s", format!("{:.3}", it.bytes_per_s / MIB)),
                metric("mbps", format!("{:.3}", it.mbps())),
                metric("Bps", format!("{:.3}", it.bytes_per_s)),
                metric("buffer/s", nought()),
            ],
            "totalBuffers": nought(),
            "avgPacketsPerInterrupt": metric("packets/interrupt", nought()),
            "interrupt": metric("count/sec", format!("{:.3}", it.interrupts_per_s())),
            "dpcs": metric("count/sec", nought()),
            "avgPacketsPerDpc": metric("packets/dpc", nought()),
            "cycles": metric("cycles/byte", nought()),
            "packetsSent": it.sent.to_string(),
            "packetsReceived": it.received.to_string(),
            "packets_retransmitted": it.retransmits.to_string(),
            "errors": it.errors.to_string(),
            "cpu": metric("%", format!("{:.3}", it.busy())),
            "bufferCount": "0",
            "bufferLen": "0",
            "io": "0",
            "tcpAverageRtt": metric("us", it.rtt_us.to_string()),
            "os": it.os,
        }
    });
    let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{ntttcp_json, ntttcp_xml};
    use crate::load::{FlowEnd, FlowSummary, Summary};

    fn summary() -> Summary {
        let receiver =
            FlowEnd { bits_per_s: 8e9, bytes: 10 << 30, counted_s: 10.737, ..FlowEnd::default() };
        let mut summary = Summary {
            flow: Some(FlowSummary {
                protocol: "tcp".to_owned(),
                bytes: 131_072,
                connections: 4,
                retransmits: Some(17),
                receiver,
                ..FlowSummary::default()
            }),
            ..Summary::default()
        };
        "10.0.0.2:9500".clone_into(&mut summary.settings.target);
        summary.settings.planned_s = 10.0;
        summary.environment.kernel = "<6.18>".to_owned();
        summary
    }

    #[test]
    fn the_forms_have_ntttcps_names() {
        let xml = ntttcp_xml(&summary());
        assert!(
            xml.starts_with("<ntttcpr computername=\"") && xml.ends_with("</ntttcpr>\n"),
            "{xml}"
        );
        for part in [
            "version=\"5.33-linux\">",
            "\t\t<run_time>10</run_time>\n",
            "\t\t<port>9500</port>\n",
            "\t<total_bytes metric=\"MB\">10240.000000</total_bytes>\n",
            "\t<throughput metric=\"mbps\">8000.000</throughput>\n",
            "\t<realtime metric=\"s\">10.737000</realtime>\n",
            "\t<packets_retransmitted>17</packets_retransmitted>\n",
            "<os>Linux &lt;6.18&gt; </os>",
        ] {
            assert!(xml.contains(part), "{part}: {xml}");
        }
        let json: Value = serde_json::from_str(&ntttcp_json(&summary())).unwrap();
        let at = |at: &str| json.pointer(at).and_then(Value::as_str).map(str::to_owned);
        assert_eq!(at("/ntttcpr/throughputs/1/value").as_deref(), Some("8000.000"));
        assert_eq!(at("/ntttcpr/throughputs/1/metric").as_deref(), Some("mbps"));
        assert_eq!(at("/ntttcpr/parameters/runTime").as_deref(), Some("10"));
        assert_eq!(at("/ntttcpr/packets_retransmitted").as_deref(), Some("17"));
        // Whatever is written is balanced.
        let opened = xml.matches('<').count() - xml.matches("</").count();
        assert_eq!(opened, xml.matches("</").count(), "{xml}");
    }
}
