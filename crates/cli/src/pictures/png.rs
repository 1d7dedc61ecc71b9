//! Pictures in pixels.

use std::io;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use wirebeat_report::pictures::Picture;

use crate::failure::Failure;

/// Pixels to a unit of a picture: its text is 39 pixels high, for print.
const SCALE: f32 = 3.0;
/// Fonts that look like those of the page, the nearest first.
const FONTS: [&str; 6] =
    ["Roboto", "Liberation Sans", "Arial", "Noto Sans", "DejaVu Sans", "Open Sans"];

/// What paints pictures, with the fonts of this machine.
#[derive(Clone, Debug)]
pub struct Painter {
    fonts: Arc<Database>,
}

impl Painter {
    /// Finds a font.
    pub fn new() -> Result<Painter, Failure> {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let families = |name: &str| {
            fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == name))
        };
        let nearest = FONTS.into_iter().find(|name| families(name)).map(str::to_owned);
        let other = || {
            let face = fonts.faces().find(|face| !face.monospaced).or(fonts.faces().next())?;
            face.families.first().map(|(family, _)| family.clone())
        };
        let Some(family) = nearest.or_else(other) else {
            let why = "this machine has no font to write text with in PNG files";
            return Err(Failure::machine(why)
                .at("--png")
                .hint("install one (apt install fonts-dejavu-core), or take the SVG files alone"));
        };
        fonts.set_sans_serif_family(family);
        Ok(Painter { fonts: Arc::new(fonts) })
    }

    /// A picture as a PNG file.
    pub fn paint(&self, picture: &Picture) -> io::Result<Vec<u8>> {
        let options = Options { fontdb: Arc::clone(&self.fonts), ..Options::default() };
        let tree = Tree::from_str(&picture.plain(), &options).map_err(io::Error::other)?;
        let size = tree.size();
        let pixels = |length: f32| (length * SCALE).ceil().clamp(1.0, 16_384.0) as u32;
        let mut canvas = Pixmap::new(pixels(size.width()), pixels(size.height()))
            .ok_or_else(|| io::Error::other("it is too large"))?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut canvas.as_mut());
        canvas.encode_png().map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_report::pictures::means::{MeanRow, means};
    use wirebeat_report::pictures::scale::Unit;

    use super::*;

    #[test]
    fn a_picture_is_painted_with_its_text_or_a_font_is_missing() {
        let named = |name: &str| {
            let row = MeanRow { name: name.into(), mean: Some(3.0), within: None, second: false };
            means("means", "Means", &[row], None, Unit::Count)
        };
        match Painter::new() {
            Ok(painter) => {
                let [one, other] = ["iperf", "MGEN"].map(|name| painter.paint(&named(name)));
                let (one, other) = (one.unwrap(), other.unwrap());
                // PNG (RFC 2083): signature, then the chunk with width and height
                assert_eq!(&one[..8], b"\x89PNG\r\n\x1a\n");
                assert_eq!(one[16..20], 1440_u32.to_be_bytes());
                assert_ne!(one, other, "their names are in them");
            }
            Err(failure) => assert!(failure.sentence().contains("no font"), "{failure}"),
        }
    }
}
