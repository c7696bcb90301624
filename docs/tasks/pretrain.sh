#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:a100:8
srun torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 \
  --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 512 \
  --tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer --bf16 \
  --vocab-size 50257 --lr 1e-4 --train-iters 10000 --attention-dropout 0 --hidden-dropout 0 \
  --cross-entropy-loss-fusion --cross-entropy-fusion-impl te
