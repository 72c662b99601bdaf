# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced: from here on programs find the fakes of the driver, of NVML, of NCCL
# and of the kernels; what they play stands in $FAKECUDA_SCRIPT and its like.
for pair in fakecuda:libcuda.so.1 fakenvml:libnvidia-ml.so.1 fakenccl:libnccl.so.2; do
	ln -s "$BUILD/tests/${pair%:*}.so" "${scratch:?}/${pair#*:}"
done
export LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export FAKECUDA_SCRIPT=$scratch/cuda FAKENVML_SCRIPT=$scratch/nvml
export FAKENCCL_SCRIPT=$scratch/nccl
export FAKECUDA_KERNELS=$BUILD/tests/fakekernels.so
unset CUDA_VISIBLE_DEVICES NCCL_P2P_DISABLE NCCL_NVLS_ENABLE NCCL_ALGO NCCL_PROTO
printf 'gpus 1\ndriver 580.95.05\n' >"$FAKENVML_SCRIPT"
: >"$FAKENCCL_SCRIPT"
