"""The same operators in NumPy, SciPy, PyLops and SigPy, from the numbers of data.rs."""

import warnings

import numpy as np

warnings.filterwarnings("ignore")


def weights(n, k):
    i = np.arange(n)
    return 1.0 + ((i * 7919 + k * 104729) % 1000 - 500.0) * 2e-5


def elements(n, k):
    i = np.arange(n)
    return ((i * 31 + k * 17 + 7) % 1009) / 1009.0 - 0.5


def image(side):
    n = side * side
    both = elements(n, 0).astype(np.float32) + 1j * elements(n, 1).astype(np.float32)
    return both.astype(np.complex64).reshape(side, side)


def mask(side):
    i = np.arange(side * side)
    return (i * 7919 % 97 < 48).astype(np.complex64).reshape(side, side)


class Numpy:
    """What somebody writes by hand; every other library overrides what it has a better word for."""

    name, version = "numpy", np.__version__

    def diagonal(self, d):
        return [d]

    def chain(self, parts):
        return [d for part in parts for d in part]

    def forward(self, a):
        def run(x):
            for d in a:
                x = d * x
            return x

        return run

    def adjoint(self, a):
        return self.forward([np.conj(d) for d in reversed(a)])

    def normal(self, a):
        there, back = self.forward(a), self.adjoint(a)
        return lambda x: back(there(x))

    def masked(self, m):
        w = np.abs(m) ** 2
        return lambda x: np.fft.ifft2(w * np.fft.fft2(x, norm="ortho"), norm="ortho")

    def sum(self, ds):
        def run(x):
            y = ds[0] * x
            for d in ds[1:]:
                y += d * x
            return y

        return run

    def stack(self, ds):
        return lambda x: np.concatenate([d * x for d in ds])

    def cg(self, ds, b, iterations):
        a = self.forward(ds)

        def run():
            x, r, p = np.zeros_like(b), b.copy(), b.copy()
            squared = r @ r
            for _ in range(iterations):
                if squared == 0.0:
                    break
                q = a(p)
                step = squared / (p @ q)
                x += step * p
                r -= step * q
                before, squared = squared, r @ r
                p *= squared / before
                p += r
            return x

        return run


class Scipy(Numpy):
    name = "scipy"

    def __init__(self):
        import scipy
        import scipy.fft
        import scipy.sparse.linalg

        self.linalg, self.fft, self.version = scipy.sparse.linalg, scipy.fft, scipy.__version__

    def diagonal(self, d):
        return self.linalg.LinearOperator(
            (d.size, d.size), matvec=lambda x: d * x, rmatvec=lambda x: np.conj(d) * x, dtype=d.dtype
        )

    def chain(self, parts):
        a = parts[0]
        for part in parts[1:]:
            a = part @ a
        return a

    def forward(self, a):
        return a.matvec

    def adjoint(self, a):
        return a.rmatvec

    def normal(self, a):
        return lambda x: a.rmatvec(a.matvec(x))

    def masked(self, m):
        shape, n = m.shape, m.size
        f = self.linalg.LinearOperator(
            (n, n),
            matvec=lambda x: self.fft.fft2(x.reshape(shape), norm="ortho").ravel(),
            rmatvec=lambda x: self.fft.ifft2(x.reshape(shape), norm="ortho").ravel(),
            dtype=m.dtype,
        )
        a = self.diagonal(m.ravel()) @ f
        return lambda x: a.rmatvec(a.matvec(x.ravel())).reshape(shape)

    def sum(self, ds):
        a = self.diagonal(ds[0])
        for d in ds[1:]:
            a = a + self.diagonal(d)
        return a.matvec

    stack = None

    def cg(self, ds, b, iterations):
        a = self.chain([self.diagonal(d) for d in ds])
        return lambda: self.linalg.cg(a, b, rtol=0.0, atol=0.0, maxiter=iterations)[0]


class Pylops(Scipy):
    name = "pylops"

    def __init__(self):
        import pylops
        from pylops.optimization.basic import cg

        self.pylops, self.solver, self.version = pylops, cg, pylops.__version__

    def diagonal(self, d):
        return self.pylops.Diagonal(d, dtype=d.dtype)

    def masked(self, m):
        f = self.pylops.signalprocessing.FFT2D(m.shape, norm="ortho", engine="scipy", dtype=m.dtype)
        a = self.diagonal(m.ravel()) @ f
        return lambda x: a.rmatvec(a.matvec(x.ravel())).reshape(m.shape)

    def stack(self, ds):
        return self.pylops.VStack([self.diagonal(d) for d in ds]).matvec

    def cg(self, ds, b, iterations):
        a = self.chain([self.diagonal(d) for d in ds])
        return lambda: self.solver(a, b, np.zeros_like(b), niter=iterations, tol=0.0)[0]


class Sigpy(Numpy):
    name = "sigpy"

    def __init__(self):
        import sigpy
        import sigpy.alg
        import sigpy.linop

        self.alg, self.linop, self.version = sigpy.alg, sigpy.linop, sigpy.__version__

    def diagonal(self, d):
        return self.linop.Multiply(list(d.shape), d)

    def chain(self, parts):
        a = parts[0]
        for part in parts[1:]:
            a = part * a
        return a

    def forward(self, a):
        return a

    def adjoint(self, a):
        return a.H

    def normal(self, a):
        return a.N

    def masked(self, m):
        return (self.diagonal(m) * self.linop.FFT(list(m.shape), center=False)).N

    def sum(self, ds):
        a = self.diagonal(ds[0])
        for d in ds[1:]:
            a = a + self.diagonal(d)
        return a

    def stack(self, ds):
        return self.linop.Vstack([self.diagonal(d) for d in ds], axis=0)

    def cg(self, ds, b, iterations):
        a = self.chain([self.diagonal(d) for d in ds])

        def run():
            x = np.zeros_like(b)
            steps = self.alg.ConjugateGradient(a, b, x, max_iter=iterations, tol=0)
            while not steps.done():
                steps.update()
            return x

        return run


LIBRARIES = [Numpy, Scipy, Pylops, Sigpy]


def contenders(libraries, bench, keys):
    """For each library that can do the row, a call without arguments."""
    found = {}
    for lib in libraries:
        if bench == "chain":
            x = elements(keys["n"], 0)
            a = lib.chain([lib.diagonal(weights(keys["n"], k)) for k in range(keys["k"])])
            f = getattr(lib, keys["what"])(a)
        elif bench == "fft":
            x, f = image(keys["side"]), lib.masked(mask(keys["side"]))
        elif bench == "sum":
            make = getattr(lib, keys["what"])
            if make is None:
                continue
            x, f = elements(keys["n"], 0), make([weights(keys["n"], k) for k in range(keys["m"])])
        elif bench == "cg":
            e, d = (1.5 + elements(keys["n"], k) for k in (3, 4))
            found[lib.name] = lib.cg([e, d, e], elements(keys["n"], 0), keys["k"])
            continue
        else:
            continue
        found[lib.name] = lambda f=f, x=x: f(x)
    return found
