//! Networks: multilayer perceptrons, the normalisation of their inputs, and Adam.
//!
//! All parameters of a network lie in one flat tensor, its weights are views of it. An Adam step is
//! then a handful of operations whatever the number of layers, and a checkpoint is three tensors.
//! Random numbers come from [`Rng`], never from libtorch, so that a saved state is complete.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use steady_sim::Rng;
use tch::kind::Element;
use tch::{Kind, Tensor, no_grad};

/// Inputs are clipped at this many standard deviations.
const INPUT_LIMIT: f64 = 10.0;

/// Standard normal numbers.
pub fn normal(rng: &mut Rng, shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..(count + 1) / 2)
        .flat_map(|_| <[f32; 2]>::from(rng.normal_pair()))
        .take(usize::try_from(count).unwrap_or(0))
        .collect();
    Tensor::from_slice(&values).view(shape)
}

/// Parameters that Adam trains: flat values, views of them, and the optimiser's moments.
#[derive(Debug)]
pub struct Trainable {
    flat: Tensor,
    leaves: Vec<Tensor>,
    first: Tensor,
    second: Tensor,
    steps: i64,
}

impl Trainable {
    pub fn new(values: &[Tensor]) -> Self {
        let flat = no_grad(|| Tensor::cat(&values.iter().map(|v| v.reshape([-1])).collect::<Vec<_>>(), 0));
        let mut start = 0;
        let leaves = values
            .iter()
            .map(|v| {
                let count = v.numel() as i64;
                let leaf = flat.narrow(0, start, count).view(v.size().as_slice()).detach();
                start += count;
                leaf.set_requires_grad(true)
            })
            .collect();
        let (first, second) = (flat.zeros_like(), flat.zeros_like());
        Self { flat, leaves, first, second, steps: 0 }
    }

    /// The parameters as tensors to compute with.
    pub fn leaves(&self) -> &[Tensor] {
        &self.leaves
    }

    /// All values in one row.
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// One Adam step (β = 0.9, 0.999) with the gradients of the leaves, in one pass over the memory.
    pub fn adam(&mut self, gradients: &[Tensor], rate: f64) {
        let gradient =
            no_grad(|| Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0));
        self.steps += 1;
        let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let (c1, c2) = (1.0 - 0.9_f64.powi(t), 1.0 - 0.999_f64.powi(t));
        let (step, root) = ((rate / c1) as f32, (1.0 / c2.sqrt()) as f32);
        let [flat, first, second] = [&mut self.flat, &mut self.first, &mut self.second].map(values_mut);
        let gradient = gradient.contiguous();
        let moments = first.iter_mut().zip(second);
        for ((x, (m, v)), g) in flat.iter_mut().zip(moments).zip(values(&gradient)) {
            *m += 0.1 * (g - *m);
            *v += 0.001 * (g * g - *v);
            *x -= step * *m / (v.sqrt() * root + 1e-8);
        }
    }

    /// Minimises `loss` by one Adam step.
    pub fn minimise(&mut self, loss: &Tensor, rate: f64) {
        let gradients = Tensor::run_backward(&[loss], &self.leaves, false, false);
        self.adam(&gradients, rate);
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, name: &str, archive: &mut Archive) -> Result<()> {
        archive.tensor(&format!("{name}.values"), &mut self.flat)?;
        archive.tensor(&format!("{name}.first"), &mut self.first)?;
        archive.tensor(&format!("{name}.second"), &mut self.second)?;
        archive.integer(&format!("{name}.steps"), &mut self.steps)
    }
}

/// The values of a dense row of `f32` on the CPU.
#[allow(unsafe_code, reason = "libtorch gives a pointer")]
fn values(row: &Tensor) -> &[f32] {
    assert!(row.kind() == Kind::Float && row.is_contiguous() && row.device() == tch::Device::Cpu);
    // SAFETY: the tensor is contiguous, of this kind and on the CPU, and lives as long as the slice.
    unsafe { std::slice::from_raw_parts(row.data_ptr().cast(), row.numel()) }
}

/// The same, mutable.
#[allow(unsafe_code, reason = "libtorch gives a pointer")]
fn values_mut(row: &mut Tensor) -> &mut [f32] {
    assert!(row.kind() == Kind::Float && row.is_contiguous() && row.device() == tch::Device::Cpu);
    // SAFETY: as in `values`. Views of the memory exist (the leaves), but nothing reads them while
    // this slice does: libtorch computes only inside its calls.
    unsafe { std::slice::from_raw_parts_mut(row.data_ptr().cast(), row.numel()) }
}

/// Minimises `loss` by one Adam step of several networks, with one backward pass.
pub fn minimise(loss: &Tensor, of: &mut [&mut Trainable], rate: f64) {
    let leaves: Vec<Tensor> = of.iter().flat_map(|t| t.leaves.iter().map(Tensor::shallow_clone)).collect();
    let mut gradients = Tensor::run_backward(&[loss], &leaves, false, false).into_iter();
    for trainable in of {
        let own: Vec<Tensor> = gradients.by_ref().take(trainable.leaves.len()).collect();
        trainable.adam(&own, rate);
    }
}

/// The tensors of a checkpoint by name. The same calls save (into an empty archive) and restore.
#[derive(Debug)]
pub(crate) struct Archive {
    tensors: BTreeMap<String, Tensor>,
    is_reading: bool,
}

impl Archive {
    pub(crate) fn to_write() -> Self {
        Self { tensors: BTreeMap::new(), is_reading: false }
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        Ok(Self { tensors: Tensor::read_safetensors(path)?.into_iter().collect(), is_reading: true })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(Tensor::write_safetensors(&self.tensors.iter().collect::<Vec<_>>(), path)?)
    }

    fn get(&self, name: &str, shape: &[i64]) -> Result<&Tensor> {
        let tensor = self.tensors.get(name).with_context(|| format!("tensor `{name}` is missing"))?;
        let size = tensor.size();
        ensure!(size == shape, "tensor `{name}` has shape {size:?} instead of {shape:?}");
        Ok(tensor)
    }

    pub(crate) fn tensor(&mut self, name: &str, tensor: &mut Tensor) -> Result<()> {
        if self.is_reading {
            no_grad(|| tensor.f_copy_(self.get(name, &tensor.size())?).map(drop).map_err(Into::into))
        } else {
            self.tensors.insert(name.to_owned(), tensor.shallow_clone());
            Ok(())
        }
    }

    pub(crate) fn values<T: Element>(&mut self, name: &str, values: &mut [T]) -> Result<()> {
        if self.is_reading {
            let tensor = self.get(name, &[values.len() as i64])?;
            Ok(tensor.f_copy_data(values, values.len())?)
        } else {
            self.tensors.insert(name.to_owned(), Tensor::from_slice(values));
            Ok(())
        }
    }

    pub(crate) fn integer(&mut self, name: &str, value: &mut i64) -> Result<()> {
        self.values(name, std::slice::from_mut(value))
    }

    /// A number of any integer type.
    pub(crate) fn count<T: Copy + TryFrom<i64>>(&mut self, name: &str, value: &mut T) -> Result<()>
    where
        i64: TryFrom<T>,
    {
        let mut integer = i64::try_from(*value).ok().with_context(|| format!("`{name}` is too large"))?;
        self.integer(name, &mut integer)?;
        *value = T::try_from(integer).ok().with_context(|| format!("`{name}` is {integer}"))?;
        Ok(())
    }
}

/// A multilayer perceptron with two hidden layers.
#[derive(Debug)]
pub struct Mlp {
    /// W₁, b₁, W₂, b₂, W₃, b₃; weights are (in, out).
    pub trainable: Trainable,
}

impl Mlp {
    /// A network with random weights; the last layer's are multiplied by `last_scale`.
    pub fn new(rng: &mut Rng, inputs: i64, hidden: i64, outputs: i64, last_scale: f64) -> Self {
        let mut layer = |from: i64, to: i64, gain: f64| {
            let weight = normal(rng, &[from, to]) * (gain / (from as f64).sqrt());
            [weight, Tensor::zeros([to], (Kind::Float, tch::Device::Cpu))]
        };
        let gain = 2.0_f64.sqrt();
        let layers =
            [layer(inputs, hidden, gain), layer(hidden, hidden, gain), layer(hidden, outputs, last_scale)];
        Self { trainable: Trainable::new(&layers.into_iter().flatten().collect::<Vec<_>>()) }
    }

    /// The network's output. ELU between the layers: Q must have a continuous slope in the action.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match self.trainable.leaves() {
            [w1, b1, w2, b2, w3, b3] => {
                let h1 = b1.addmm(x, w1).elu();
                let h2 = b2.addmm(&h1, w2).elu();
                b3.addmm(&h2, w3)
            }
            _ => unreachable!("an Mlp has three layers"),
        }
    }
}

/// Running mean and standard deviation of a network's inputs.
#[derive(Debug)]
pub struct Normaliser {
    count: f64,
    mean: Tensor,
    /// Sum of squared deviations from the mean.
    squares: Tensor,
}

impl Normaliser {
    /// Without statistics: the identity.
    pub fn new(width: i64) -> Self {
        let zeros = Tensor::zeros([width], (Kind::Double, tch::Device::Cpu));
        Self { count: 0.0, mean: zeros.shallow_clone(), squares: zeros.zeros_like() }
    }

    /// Adds rows to the statistics (Chan's rule for merging).
    pub fn update(&mut self, rows: &Tensor) {
        no_grad(|| {
            let rows = rows.to_kind(Kind::Double);
            let n = rows.size().first().copied().unwrap_or(0) as f64;
            if n < 1.0 {
                return;
            }
            let mean = rows.mean_dim(0, false, Kind::Double);
            let squares = (rows - &mean).square().sum_dim_intlist(0, false, Kind::Double);
            let total = self.count + n;
            let shift = mean - &self.mean;
            self.squares = &self.squares + squares + shift.square() * (self.count * n / total);
            self.mean = &self.mean + shift * (n / total);
            self.count = total;
        });
    }

    /// Standard deviations, 1 where nothing varies.
    fn deviation(&self) -> Tensor {
        if self.count < 2.0 {
            return self.mean.ones_like();
        }
        let deviation = (&self.squares / self.count).sqrt();
        deviation.where_self(&deviation.gt(1e-6), &deviation.ones_like())
    }

    /// Normalised rows, clipped.
    pub fn apply(&self, rows: &Tensor) -> Tensor {
        let (mean, scale) = (self.mean.to_kind(Kind::Float), self.deviation().to_kind(Kind::Float));
        ((rows - mean) / scale).clamp(-INPUT_LIMIT, INPUT_LIMIT)
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, name: &str, archive: &mut Archive) -> Result<()> {
        archive.values(&format!("{name}.count"), std::slice::from_mut(&mut self.count))?;
        archive.tensor(&format!("{name}.mean"), &mut self.mean)?;
        archive.tensor(&format!("{name}.squares"), &mut self.squares)
    }
}
