//! What links graphics processors have to this computer, as the kernel tells (Linux: `/sys/bus/pci/devices`).
//!
//! Files are read, nothing is measured. A processor that idles slows its link down, so that the present speed says little;
//! lanes stay as they were trained.

use std::fmt;
use std::path::Path;

/// Links looked for at most.
const MOST: usize = 256;
/// NVIDIA's number among makers of PCI devices.
const NVIDIA: &str = "0x10de";

/// The link of one graphics processor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Link {
    /// Where it sits: `0000:3b:00.0`.
    pub pci_bus_id: String,
    /// The generation of PCI Express that it could have.
    pub generation_most: u32,
    /// The generation at which it runs now.
    pub generation_now: Option<u32>,
    /// The lanes that it has now.
    pub lanes_now: u32,
    /// The lanes that it could have.
    pub lanes_most: Option<u32>,
}

/// The links of this computer's NVIDIA processors, by address; none where the kernel does not tell.
pub fn read() -> Vec<Link> {
    read_in(Path::new("/sys/bus/pci/devices"))
}

/// The same of a folder with a folder for each device.
pub fn read_in(devices: &Path) -> Vec<Link> {
    let Ok(entries) = std::fs::read_dir(devices) else { return Vec::new() };
    let mut links: Vec<Link> = entries
        .flatten()
        .filter_map(|entry| {
            let file = |name: &str| short(&entry.path().join(name));
            let is_graphics = file("class")?.starts_with("0x03");
            if !is_graphics || file("vendor")? != NVIDIA {
                return None;
            }
            let lanes =
                |name: &str| file(name)?.parse().ok().filter(|n| [1, 2, 4, 8, 12, 16, 32].contains(n));
            let speed = |name: &str| generation(&file(name)?);
            let now = speed("current_link_speed");
            Some(Link {
                pci_bus_id: entry.file_name().to_str()?.to_owned(),
                generation_most: speed("max_link_speed").or(now)?,
                generation_now: now,
                lanes_now: lanes("current_link_width")?,
                lanes_most: lanes("max_link_width"),
            })
        })
        .take(MOST)
        .collect();
    links.sort_by(|a, b| a.pci_bus_id.cmp(&b.pci_bus_id));
    links
}

/// The first line of a small file.
fn short(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(64).read_to_string(&mut text).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The generation of a speed as the kernel writes it: `16.0 GT/s PCIe`, `8 GT/s`.
fn generation(text: &str) -> Option<u32> {
    match text.strip_suffix(" PCIe").unwrap_or(text).strip_suffix(" GT/s")?.trim() {
        "2.5" => Some(1),
        "5.0" | "5" => Some(2),
        "8.0" | "8" => Some(3),
        "16.0" | "16" => Some(4),
        "32.0" | "32" => Some(5),
        "64.0" | "64" => Some(6),
        _ => None,
    }
}

/// As `spanlift advise --link` takes it: `pcie4x16`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pcie{}x{}", self.generation_most, self.lanes_now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of devices, each with files.
    fn tree(name: &str, devices: &[(&str, &[(&str, &str)])]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("spanlift-link-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (device, files) in devices {
            std::fs::create_dir_all(root.join(device)).unwrap();
            for (file, text) in *files {
                std::fs::write(root.join(device).join(file), text).unwrap();
            }
        }
        root
    }

    const GPU: [(&str, &str); 2] = [("vendor", "0x10de\n"), ("class", "0x030200\n")];

    #[test]
    fn links_are_read_from_what_the_kernel_tells() {
        let speeds = |now, most| [("current_link_speed", now), ("max_link_speed", most)];
        let idle = [
            &GPU[..],
            &speeds("2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n"),
            &[("current_link_width", "16\n"), ("max_link_width", "16\n")],
        ]
        .concat();
        let old = [
            &GPU[..],
            &speeds("8 GT/s\n", "8 GT/s\n"),
            &[("current_link_width", "4\n"), ("max_link_width", "16\n")],
        ]
        .concat();
        let network = [("vendor", "0x15b3\n"), ("class", "0x020000\n"), ("current_link_width", "16\n")];
        let root =
            tree("good", &[("0000:af:00.0", &old), ("0000:3b:00.0", &idle), ("0000:00:01.0", &network)]);
        let found = read_in(&root);
        let told: Vec<String> = found.iter().map(|l| format!("{} {l}", l.pci_bus_id)).collect();
        assert_eq!(told, ["0000:3b:00.0 pcie4x16", "0000:af:00.0 pcie3x4"]);
        assert_eq!((found[0].generation_now, found[1].lanes_most), (Some(1), Some(16)));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_not_told_is_left_out() {
        let full = [
            ("current_link_speed", "Unknown"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
        ];
        let unknown = [&GPU[..], &full].concat();
        let none = [&GPU[..], &[("current_link_width", "0"), ("max_link_speed", "16.0 GT/s PCIe")]].concat();
        let wild =
            [&GPU[..], &[("current_link_width", "99999999999"), ("max_link_speed", "1e9 GT/s")]].concat();
        let root = tree("odd", &[("a", &unknown), ("b", &none), ("c", &wild), ("d", &GPU), ("e", &[])]);
        std::fs::write(root.join("f"), [0xff; 4096]).unwrap();
        std::fs::write(root.join("d/max_link_speed"), [0xff; 4096]).unwrap();
        let found = read_in(&root);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].to_string().as_str(), found[0].generation_now), ("pcie5x16", None));
        std::fs::remove_dir_all(root).unwrap();
        assert!(read_in(Path::new("/there/is/no/such/folder")).is_empty());
    }
}
