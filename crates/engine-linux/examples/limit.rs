fn main() {
    let a: Vec<String> = std::env::args().collect();
    let ns = std::fs::File::open(&a[2]).unwrap();
    let idx: u32 = a[1].parse().unwrap();
    let far: u32 = a[3].parse().unwrap();
    for batch in [64, 256] {
        let ns = ns.try_clone().unwrap();
        let r = wirebeat_engine_linux::kernel::bare_limit(
            idx,
            far,
            move || {
                use std::os::fd::AsFd;
                rustix::thread::move_into_link_name_space(
                    ns.as_fd(),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )
                .map_err(Into::into)
            },
            batch,
            std::time::Duration::from_secs(2),
        )
        .unwrap();
        println!(
            "batch {batch}: {:?} {:.3} Mpps",
            r,
            r.received as f64 / r.elapsed.as_secs_f64() / 1e6
        );
    }
}
