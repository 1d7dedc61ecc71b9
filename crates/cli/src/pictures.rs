//! `--pictures`: a folder with the pictures of a report, an SVG file each, and by choice a PNG file.

mod png;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use wirebeat_report::pictures::Picture;

use crate::failure::Failure;
use png::Painter;

/// A folder for pictures.
#[derive(Clone, Debug)]
pub struct PictureFolder {
    path: PathBuf,
    painter: Option<Painter>,
}

impl PictureFolder {
    /// Makes the folder, if it is not there, and finds a font where PNG files are wanted: that either is missing has to be known before
    /// traffic starts.
    pub fn open(path: PathBuf, png: bool) -> Result<PictureFolder, Failure> {
        let painter = png.then(Painter::new).transpose()?;
        fs::create_dir_all(&path).map_err(|error| {
            Failure::making(&error)
                .at(format!("--pictures {}", path.display()))
                .hint("name a folder that you may write to")
        })?;
        Ok(PictureFolder { path, painter })
    }

    /// Writes the pictures, over those of an earlier report. Other files of their names stay.
    pub fn write(&self, pictures: &[Picture]) -> Result<(), Failure> {
        for picture in pictures {
            let path = self.path.join(format!("{}.svg", picture.name));
            let failed = |why: String| Failure::output(why).at(path.display().to_string());
            if !may_replace(&path) {
                let failure =
                    failed("there is a file already, which is no picture of ours".to_owned());
                return Err(failure.hint("name another folder"));
            }
            fs::write(&path, picture.file())
                .map_err(|error| failed(format!("cannot write the picture: {error}")))?;
            if let Some(painter) = &self.painter {
                // it goes with the SVG file of its name, which is ours
                let path = path.with_extension("png");
                let written = painter.paint(picture).and_then(|bytes| fs::write(&path, bytes));
                written.map_err(|error| {
                    Failure::output(format!("cannot write the picture: {error}"))
                        .at(path.display().to_string())
                })?;
            }
        }
        Ok(())
    }
}

/// Whether there is nothing at a path, or a picture of ours.
fn may_replace(path: &Path) -> bool {
    let mut head = vec![0; Picture::MARK.len()];
    match File::open(path) {
        Ok(mut file) => file.read_exact(&mut head).is_ok() && head == Picture::MARK.as_bytes(),
        // what cannot be read is left to the one who writes it
        Err(_) => true,
    }
}
