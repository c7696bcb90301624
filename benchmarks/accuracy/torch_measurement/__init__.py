"""What measure_torch.py is made of: `device`, `models` and `work` need PyTorch, the others not."""
