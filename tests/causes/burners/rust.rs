//! Rust: each request computes for 120 ms in a function that calls the standard library.
use std::io::{Read, Write};
use std::net::TcpListener;

const ITEMS: usize = 20_000;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn cpu_seconds() -> f64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}

#[inline(never)]
fn burn_items(seconds: f64) -> u64 {
    let end = cpu_seconds() + seconds;
    let mut values = vec![0u64; ITEMS];
    let mut seed = 88_172_645_463_325_252u64;
    while cpu_seconds() < end {
        for value in values.iter_mut() {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            *value = seed;
        }
        values.sort_unstable();
    }
    values[0]
}

fn main() {
    let port = std::env::args().last().unwrap();
    for stream in TcpListener::bind(format!("127.0.0.1:{port}")).unwrap().incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut request = [0u8; 4096];
            if stream.read(&mut request).unwrap_or(0) > 0 {
                std::hint::black_box(burn_items(0.12));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
    }
}
